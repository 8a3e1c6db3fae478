"""Keeps models' answers to sentences: in memory, and behind that in Redis."""
