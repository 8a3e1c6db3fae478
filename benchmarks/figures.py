"""Summarises measured values: percentiles, spreads and ratios."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Spread:
    """The median of repeated measurements, the smallest and the largest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{show(self.median)} ({show(self.low)}–{show(self.high)})"


@dataclass(frozen=True)
class Latencies:
    """Percentiles of the answers' times, and the mean; None if there were no answers."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p90_ms: float | None = None
    mean_ms: float | None = None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that `share` of the values do not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def summarize_latencies(seconds: Sequence[float]) -> Latencies:
    """Percentiles in milliseconds of times in seconds."""
    ms = [second * 1000 for second in seconds]
    return Latencies(
        p50_ms=percentile(ms, 0.5),
        p95_ms=percentile(ms, 0.95),
        p99_ms=percentile(ms, 0.99),
        p90_ms=percentile(ms, 0.9),
        mean_ms=statistics.fmean(ms) if ms else None,
    )


def spread(values: Iterable[float]) -> Spread:
    """The spread of one value or more."""
    values = list(values)
    return Spread(statistics.median(values), min(values), max(values))


def find_ratio(
    ours: Sequence[float | None],
    theirs: Sequence[float | None],
    relate: Callable[[float, float], float] = operator.truediv,
) -> Spread | None:
    """Relate ours to theirs, round by round, as a ratio unless another function is given;
    None if no round has both."""
    pairs = zip(ours, theirs, strict=True)
    ratios = [relate(our, their) for our, their in pairs if our is not None and their]
    return spread(ratios) if ratios else None


def judge(value: float, limit: float, *, is_least: bool = False) -> str:
    """Say whether a promise is kept: `within 3`, or `below 0.9` of a least value."""
    if is_least:
        return f"{'within' if value >= limit else 'below'} {limit:g}"
    return f"{'within' if value <= limit else 'over'} {limit:g}"


def find_median(values: Iterable[float | None]) -> float | None:
    """The median of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def group(
    values: Iterable[Value], key: Callable[[Value], Key]
) -> dict[Key, list[Value]]:
    """The values of each key, in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def list_counts(counts: Mapping[str, int]) -> str:
    """`3 x 200, 1 x 429`."""
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def show(value: float | None) -> str:
    """Three digits: more than a benchmark knows."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{value:,.{digits}f}"
