"""Trains the models that ship for images: draws pictures, trains, checks, writes cards."""
