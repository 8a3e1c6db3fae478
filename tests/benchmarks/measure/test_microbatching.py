"""The micro-batching benchmark's arithmetic, and a bound that a process feels."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.figures import Latencies
from benchmarks.instruments.load import Load
from benchmarks.instruments.running import Running
from benchmarks.measure.microbatching import Turn, bound_memory, compare, tabulate


def make_turn(batch_size: int, number: int, clients: int, rate: float) -> Turn:
    times = Latencies(1.0, 2.0, 3.0, mean_ms=1000 * clients / rate)
    statuses = {"200": 100}
    load = Load("closed", clients, 1.0, 100, rate, 0, times, statuses)
    return Turn(batch_size, number, load)


TURNS = [
    make_turn(1, 0, 64, 10),
    make_turn(64, 0, 64, 40),
    make_turn(1, 1, 64, 20),
    make_turn(64, 1, 64, 100),
    make_turn(1, 0, 128, 10),
    make_turn(64, 0, 128, 80),
]


def test_batches_are_compared_round_by_round():
    gain = compare(TURNS, 64)
    assert gain.throughput
    assert gain.mean_latency
    assert (gain.throughput.low, gain.throughput.high) == (4, 5)
    assert (gain.mean_latency.low, gain.mean_latency.high) == (0.2, 0.25)
    assert str(compare(TURNS, 128).throughput) == "8.00 (8.00–8.00)"


def test_a_row_is_a_number_of_clients_with_a_batch_size():
    rows = tabulate(TURNS).rows
    assert [row[:3] for row in rows] == [
        ("64", "1", "15.0"),
        ("64", "64", "70.0"),
        ("128", "1", "10.0"),
        ("128", "64", "80.0"),
    ]


def test_a_process_gets_no_more_memory_than_its_bound():
    code = "input(); bytearray(400_000_000)"
    process = psutil.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    bound_memory(Running("", {"gateway": process}), 100)
    _, said = process.communicate(b"\n", timeout=60)
    assert b"MemoryError" in said
