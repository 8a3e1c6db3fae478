"""The models that ship, and the recipes that made them."""
