"""From a text to segments and back, without I/O: markup, placeholders, terms, languages."""
