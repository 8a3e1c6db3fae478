"""Benchmarks of Babelgate alone, one command per file."""
