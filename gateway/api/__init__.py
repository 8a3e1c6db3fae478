"""The HTTP routes, one file per task or purpose. Each builds a blueprint."""
