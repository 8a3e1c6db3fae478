"""Everything between a socket and Flask: connections, bodies, callers, and refusals under
overload.
"""
