"""Programs that only speak HTTP to the stack."""
