"""What the benchmark of a cluster makes of its measurements."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.instruments.generator import Reply
from benchmarks.instruments.load import summarize
from benchmarks.measure import ingress
from benchmarks.report import tabulate


def make_load(answers: int):
    replies = [Reply(0, "200", 0.25, 0.25, 0.0)] * answers
    return summarize("closed", 64, 1.0, replies)


def test_ways_are_shown_with_the_cpu_of_the_programs_that_they_have():
    load = replace(make_load(100), cpu_ms={"ingress": 0.25, "replica": 0.5})
    (row,) = tabulate(
        [ingress.Way("HAProxy", load, 32.0, 0.125)], ingress.WAY_COLUMNS
    ).rows
    assert row == (
        *("HAProxy", "100", "250", "250", "0", "32.0"),
        *("–", "0.25", "0.50", "0.12"),
    )


def test_machines_are_compared_with_one():
    shares = [
        ingress.MachineShare(1, make_load(100)),
        ingress.MachineShare(3, make_load(270)),
    ]
    assert [row[-1] for row in ingress.describe_machines(shares).table.rows] == [
        "1.00",
        "0.90",
    ]


def test_the_head_is_gone_for_as_long_as_is_asked_for():
    assert "the head is gone for 75 s" in [
        fault.name for fault in ingress.list_faults(75)
    ]
