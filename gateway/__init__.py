"""The HTTP service: validates requests, splits them into rows, and answers."""
