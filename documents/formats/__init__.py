"""The formats: one module each, found by the ending of a file's name."""
