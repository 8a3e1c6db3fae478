"""The micro-batching benchmark's arithmetic, and a bound that a process feels."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.instruments.load import LoadFigures
from benchmarks.instruments.running import Running
from benchmarks.measure.microbatching import ALONE, BATCHED, bound_memory, describe
from benchmarks.report import Latencies, Spread


def make_load(clients: int, rate: float) -> LoadFigures:
    times = Latencies(1.0, 2.0, 3.0, mean_ms=1000 * clients / rate)
    return LoadFigures("closed", clients, 1.0, 100, rate, 0, times, {"200": 100})


#: The loads of each round, with 64 and 128 clients.
LOADS = {
    BATCHED: [
        [make_load(64, 40.0), make_load(128, 80.0)],
        [make_load(64, 100.0), make_load(128, 80.0)],
    ],
    ALONE: [
        [make_load(64, 10.0), make_load(128, 10.0)],
        [make_load(64, 20.0), make_load(128, 10.0)],
    ],
}


def test_loads_are_compared_at_each_number_of_clients():
    few, many = describe(LOADS).results["relations"]
    assert (few["case"], many["case"]) == ("64", "128")
    assert few["figures"]["requests/s"] == Spread(4.5, 4, 5)
    latency = few["figures"]["mean ms"]
    assert (latency.low, latency.high) == (0.2, 0.25)


def test_a_process_gets_no_more_memory_than_its_bound():
    code = "input(); bytearray(400_000_000)"
    process = psutil.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    bound_memory(Running("", {"gateway": process}), 100)
    _, said = process.communicate(b"\n", timeout=60)
    assert b"MemoryError" in said
