"""The agreements of the stack's processes and their clients. Imports nothing of ours and
only the standard library.
"""
