"""The search for the fastest configuration within a latency target."""
