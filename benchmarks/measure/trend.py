"""Decides whether samples over time have grown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: What is promised: nothing grows by more, from the first quarter to the last.
GROWTH = 0.02
#: Samples before this share of the time do not count: caches fill, code is compiled.
WARM_UP = 0.2
_FEWEST = 8


@dataclass(frozen=True)
class Series:
    """One measure of one part, such as the megabytes of nginx."""

    part: str
    unit: str
    #: Seconds since the start, and value.
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Trend:
    """The medians of the first and the last quarter after warming up."""

    part: str
    unit: str
    first: float
    last: float
    #: The slope of a straight line through all points after warming up.
    slope_per_hour: float
    is_flat: bool

    @property
    def change(self) -> float:
        """The last quarter's growth as a share of the first quarter."""
        return (self.last - self.first) / self.first if self.first else 0.0


def find_trend(series: Series, slack: float) -> Trend | None:
    """The trend, flat if it grew by at most 2 % or `slack`. None with few points."""
    end_s = max((time for time, _ in series.points), default=0.0)
    points = [point for point in series.points if point[0] >= WARM_UP * end_s]
    if len(points) < _FEWEST:
        return None
    values = [value for _, value in points]
    quarter = len(values) // 4
    first = statistics.median(values[:quarter])
    last = statistics.median(values[-quarter:])
    slope_per_s = np.polyfit([time for time, _ in points], values, 1)[0]
    is_flat = last - first <= max(GROWTH * first, slack)
    return Trend(
        series.part, series.unit, first, last, float(slope_per_s) * 3600, is_flat
    )
