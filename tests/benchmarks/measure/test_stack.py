"""What the benchmark of a running stack makes of its loads."""

from __future__ import annotations

from benchmarks.instruments.generator import Reply
from benchmarks.instruments.load import summarize
from benchmarks.measure.stack import describe

CLOSED = summarize(
    "closed", 64, 1.0, [Reply(0, "200", 1, 0.25, 0), Reply(1, "503", 1, 0.1, 0)]
)
OPEN = summarize("open", 20, 1.0, [Reply(0, "200", 1, 0.5, lag_s=0.01)])


def test_a_load_is_a_row():
    closed, opened = describe([CLOSED, OPEN]).table.rows
    assert closed == ("closed", "64", "1.00", "250", "250", "250", "1", "–")
    assert opened == ("open", "20", "1.00", "500", "500", "500", "0", "10.0")


def test_closed_and_open_loops_have_charts_of_their_own():
    closed, opened = describe([CLOSED, OPEN]).charts
    assert closed.title == "Closed loop"
    assert closed.lines == {name: [(1.0, 250.0)] for name in ("p50", "p95", "p99")}
    assert opened.lines["p99"] == [(1.0, 500.0)]
