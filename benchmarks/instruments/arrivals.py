"""Draws the times at which independent requests arrive."""

from __future__ import annotations

import random


def draw_arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Times in seconds of a Poisson process, none after `seconds`; the same for the same
    seed."""
    rng = random.Random(seed)
    times: list[float] = []
    time = rng.expovariate(rate)
    while time < seconds:
        times.append(time)
        time += rng.expovariate(rate)
    return times
