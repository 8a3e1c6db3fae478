"""The Poisson schedule of the open loop."""

from __future__ import annotations

import math
import statistics

from benchmarks.instruments.generator import draw_arrivals

RATE, SECONDS = 50.0, 200.0


def test_the_same_seed_gives_the_same_arrivals():
    assert draw_arrivals(RATE, 10, 1) == draw_arrivals(RATE, 10, 1)
    assert draw_arrivals(RATE, 10, 1) != draw_arrivals(RATE, 10, 2)


def test_on_average_they_come_at_the_rate():
    expected = RATE * SECONDS
    count = len(draw_arrivals(RATE, SECONDS, 0))
    assert abs(count - expected) < 4 * math.sqrt(expected)


def test_gaps_are_exponential():
    times = draw_arrivals(RATE, SECONDS, 0)
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    mean, deviation = statistics.mean(gaps), statistics.pstdev(gaps)
    assert abs(deviation / mean - 1) < 0.05  # those of an even schedule would have 0
