"""The micro-batching benchmark's arithmetic, and a bound that a process feels."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.figures import Latencies, Spread
from benchmarks.instruments.load import LoadFigures
from benchmarks.instruments.running import Running
from benchmarks.measure.microbatching import ALONE, BATCHED, bound_memory, describe


def make_load(clients: int, rate: float) -> LoadFigures:
    times = Latencies(1.0, 2.0, 3.0, mean_ms=1000 * clients / rate)
    return LoadFigures("closed", clients, 1.0, 100, rate, 0, times, {"200": 100})


#: The loads of each round, with 64 and 128 clients.
LOADS = {
    ALONE: [
        [make_load(64, 10), make_load(128, 10)],
        [make_load(64, 20), make_load(128, 10)],
    ],
    BATCHED: [
        [make_load(64, 40), make_load(128, 80)],
        [make_load(64, 100), make_load(128, 80)],
    ],
}


def test_batches_are_compared_round_by_round():
    few, many = describe(LOADS).results["gains"]
    assert (few.throughput.low, few.throughput.high) == (4, 5)
    assert (few.mean_latency.low, few.mean_latency.high) == (0.2, 0.25)
    assert (many.clients, many.throughput) == (128, Spread(8, 8, 8))


def test_a_row_is_a_number_of_clients_with_and_without_batches():
    assert [row[:3] for row in describe(LOADS).table.rows] == [
        ("64", ALONE, "15.0"),
        ("64", BATCHED, "70.0"),
        ("128", ALONE, "10.0"),
        ("128", BATCHED, "80.0"),
    ]


def test_a_process_gets_no_more_memory_than_its_bound():
    code = "input(); bytearray(400_000_000)"
    process = psutil.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    bound_memory(Running("", {"gateway": process}), 100)
    _, said = process.communicate(b"\n", timeout=60)
    assert b"MemoryError" in said
