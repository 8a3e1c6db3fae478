"""Brings the stack up on one machine and down again."""
