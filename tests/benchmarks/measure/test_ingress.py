"""The verdicts of a cluster's benchmark on its measurements."""

from __future__ import annotations

from benchmarks.instruments.generator import LoadReply
from benchmarks.instruments.load import summarize
from benchmarks.measure import ingress


def make_load(answers: int):
    replies = [LoadReply(0, "200", 0.25, 0.25, 0.0)] * answers
    return summarize("closed", 64, 1.0, replies)


def test_machines_are_compared_with_one():
    shares = [
        ingress.ClusterLoad("1", make_load(100), machines=1),
        ingress.ClusterLoad("3", make_load(270), machines=3),
    ]
    assert [row[-1] for row in ingress.describe_machines(shares).table.rows] == [
        "1.00",
        "0.90",
    ]
