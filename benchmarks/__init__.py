"""Numbers that anyone can repeat."""
