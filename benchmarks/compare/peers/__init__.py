"""Other serving systems with the same engine: how to install, start and ask them."""
