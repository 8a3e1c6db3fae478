"""Comparisons of Babelgate with other systems on the same machine, in alternating rounds."""
