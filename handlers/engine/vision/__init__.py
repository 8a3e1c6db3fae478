"""Models that read images, without a server."""
