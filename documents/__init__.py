"""Whole documents: read, translated as durable jobs through the gateway, and written again."""
