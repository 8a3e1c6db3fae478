"""Comparisons of Babelgate with other systems, in alternation on the same machine."""
