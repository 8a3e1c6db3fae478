"""Trains the models that ship for images: draws pictures and clips, trains, checks, writes cards."""
