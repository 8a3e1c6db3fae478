"""One file per surface; each makes a blueprint from the parts that it needs."""
