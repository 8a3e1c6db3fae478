"""The models on a Ray cluster, asked by HTTP alone."""
