"""When replicas are added and removed, as Serve's own policy decides it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.simulate.scenario import AutoscalingEntry

#: Differences of times are not exact.
_EPSILON_S = 1e-6


@dataclass(frozen=True)
class Wish:
    """More replicas or fewer, and since when that is wanted without a break."""

    is_up: bool
    since_s: float


@dataclass(frozen=True)
class Decision:
    """How many replicas there shall be, and the wish that does not yet count."""

    target: int
    wish: Wish | None = None


def decide(
    entry: AutoscalingEntry,
    last: Decision,
    *,
    now_s: float,
    wanted: float,
    bounds: tuple[int, int],
) -> Decision:
    """The next decision, where the requests are those of `wanted` replicas. A wish becomes
    the target after its delay."""
    least, most = bounds
    desired = math.ceil(wanted)
    desired = min(most, max(least, desired))
    if desired == last.target:
        return Decision(last.target)
    is_up = desired > last.target
    wish = last.wish
    if wish is None or wish.is_up != is_up:
        wish = Wish(is_up, now_s)
    delay_s = entry.upscale_delay_s if is_up else entry.downscale_delay_s
    if now_s - wish.since_s + _EPSILON_S < delay_s:
        return Decision(last.target, wish)
    return Decision(desired)
