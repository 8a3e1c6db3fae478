"""Everything between a socket and Flask: connections, bodies and callers."""
