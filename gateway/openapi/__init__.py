"""Describes the routes as OpenAPI 3.1, from the models that validate their requests."""
