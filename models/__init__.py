"""What ships, and the recipes that made it."""
