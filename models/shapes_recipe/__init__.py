"""The recipe of `models/shapes`: draws images, trains, evaluates and writes the card."""
