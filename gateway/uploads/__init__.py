"""Answers uploads of images and arrays while they arrive."""
