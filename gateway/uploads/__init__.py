"""Handles uploads of images, arrays and documents while they arrive."""
