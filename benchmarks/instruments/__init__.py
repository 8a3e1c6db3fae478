"""What the benchmarks measure with: load, counters, stacks and inputs."""
