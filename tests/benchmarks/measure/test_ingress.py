"""What the benchmark of a cluster makes of its measurements."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.instruments.faults import Outcome
from benchmarks.instruments.generator import Reply
from benchmarks.instruments.load import summarize
from benchmarks.measure.ingress import (
    Share,
    Way,
    list_faults,
    tabulate_faults,
    tabulate_machines,
    tabulate_ways,
)


def make_load(answers: int):
    replies = [Reply(0, "200", 0.25, 0.25, 0.0)] * answers
    return summarize("closed", 64, 1.0, replies)


def test_ways_are_shown_with_the_cpu_of_the_programs_that_they_have():
    load = replace(make_load(100), cpu_ms={"ingress": 0.25, "replica": 0.5})
    (row,) = tabulate_ways([Way("HAProxy", load, 32.0, 0.125)]).rows
    assert row == (
        *("HAProxy", "100", "250", "250", "0", "32.0"),
        *("–", "0.25", "0.50", "0.12"),
    )


def test_machines_are_compared_with_one():
    shares = [Share(1, make_load(100)), Share(3, make_load(270))]
    assert [row[-1] for row in tabulate_machines(shares).rows] == ["1.00", "0.90"]


def test_a_fault_shows_what_failed_and_none_as_zero():
    good = Outcome("a", 100, {}, 50.0, 1.0, 20.0)
    bad = Outcome("b", 100, {"503": 2}, 50.0, 1.0, 20.0)
    assert [row[2] for row in tabulate_faults([good, bad]).rows] == ["0", "2 x 503"]


def test_the_head_is_gone_for_as_long_as_is_asked_for():
    assert "the head is gone for 75 s" in [fault.name for fault in list_faults(75)]
