"""Decides which load to try next and which combinations to keep. Successive halving
(Jamieson and Talwalkar, arXiv:1502.07943): all combinations are measured briefly, the
best third twice as long, and so on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

#: One of so many combinations comes to the next rung.
_ETA = 3

T = TypeVar("T")


def find_highest(
    levels: int, passes: Callable[[int], bool], start: int | None = None
) -> int | None:
    """The highest of `levels` numbers from 0 that passes, if all below it do; None if
    none does. Searches by bisection, or step by step from `start`."""
    passed, failed = -1, levels
    probe = levels // 2 if start is None else start
    while failed - passed > 1:
        if passes(probe):
            passed = probe
        else:
            failed = probe
        if start is None:
            probe = (passed + failed) // 2
        else:
            probe = passed + 1 if passed >= start else failed - 1
    return passed if passed >= 0 else None


def plan_rungs(combinations: int, *, is_grid: bool = False) -> list[int]:
    """How many combinations are measured in each rung; a grid has one rung only."""
    rungs = [combinations]
    while not is_grid and rungs[-1] > _ETA:
        rungs.append(math.ceil(rungs[-1] / _ETA))
    return rungs


def shuffle(combinations: Sequence[T]) -> list[T]:
    """Keeps the first, and the others in a random order that is always the same."""
    first, *others = combinations
    random.Random(0).shuffle(others)
    return [first, *others]
