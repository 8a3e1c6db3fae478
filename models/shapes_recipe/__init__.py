"""Trains the models for images that ship: draws images, trains, evaluates, writes cards."""
