"""Trains the models for images that ship: draws images, trains, evaluates and writes
cards.
"""
