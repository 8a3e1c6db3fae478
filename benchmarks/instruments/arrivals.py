"""Draws the times at which independent requests arrive."""

from __future__ import annotations

import random


def draw_arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Times in seconds, in order, of a Poisson process: on average `rate` a second, each
    independent of the others, none after `seconds`. The same seed gives the same times."""
    rng = random.Random(seed)
    times: list[float] = []
    time = rng.expovariate(rate)
    while time < seconds:
        times.append(time)
        time += rng.expovariate(rate)
    return times
