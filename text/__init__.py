"""Converts texts to segments and back, without I/O: markup, placeholders, terms, languages."""
