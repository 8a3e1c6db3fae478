"""Babelgate and other systems in turns on the same machine."""
