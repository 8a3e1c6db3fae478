"""Which model runs where, and how it gets there."""
