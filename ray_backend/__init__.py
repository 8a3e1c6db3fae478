"""The map's models on many machines: Ray Serve for requests, Ray Data for bulk work."""
