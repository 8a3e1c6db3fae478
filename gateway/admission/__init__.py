"""Decides which rows go to the models now, which wait, and which requests are refused."""
