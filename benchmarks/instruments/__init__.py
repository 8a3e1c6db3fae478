"""The instruments of the benchmarks: load, counters, stacks and inputs."""
