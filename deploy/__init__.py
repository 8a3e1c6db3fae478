"""Starts and stops the stack on one machine."""
