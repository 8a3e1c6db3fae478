"""Models without a server, usable from a Python prompt."""
