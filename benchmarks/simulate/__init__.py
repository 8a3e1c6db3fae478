"""Simulates gateways and replicas, event by event, before anybody rents them."""
