"""Other serving systems with the same engine: their installation and servers."""
