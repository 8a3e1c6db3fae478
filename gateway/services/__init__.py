"""What routes call: the services behind every API."""
