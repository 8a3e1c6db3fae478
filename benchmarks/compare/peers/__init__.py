"""Other serving systems with the same engine, for comparison: a small server on each
one's released package, and how to install, start and stop it.
"""
