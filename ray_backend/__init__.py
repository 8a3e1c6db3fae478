"""The map's models on many machines: Ray Serve for requests, Ray actors for bulk work."""
