"""Other serving systems with the same engine, to be compared with ours: a small server on
each one's released package, and how it is installed, started and stopped.
"""
