"""A seed in, the faults and their times out. Nothing here touches a process."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

#: Between two faults, in seconds: some come while the last one is being healed.
PAUSE_S = (0.1, 0.6)


@dataclass(frozen=True)
class Event:
    """A fault, how long after the one before it, and what it draws its details from."""

    fault: str
    pause_s: float
    seed: int


def draw_schedule(seed: int, faults: Sequence[str]) -> tuple[Event, ...]:
    """Return every fault once, in an order that the seed decides."""
    rng = random.Random(seed)
    order = rng.sample(faults, len(faults))
    return tuple(
        Event(fault, round(rng.uniform(*PAUSE_S), 1), rng.randrange(2**32))
        for fault in order
    )
