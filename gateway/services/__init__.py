"""The services behind every API, which routes call."""
