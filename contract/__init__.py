"""What the stack's processes and their clients agree on. It imports nothing of ours and only
the standard library.
"""
