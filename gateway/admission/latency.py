"""Learns how long a model takes from the rows it has answered, and forecasts how long
the next ones will take.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

#: The weight of the next row in an average. Rows of a batch are alike, so a batch of 64
#: replaces nearly all of it.
_GAIN = 0.05
#: Rows that find the model idle are rarer and weigh more.
_IDLE_GAIN = 0.3
#: A deviation is followed as by Jacobson and Karels (SIGCOMM 1988). TCP adds four of them to
#: a round trip; here they become as many as leave this part of the rows late, by stochastic
#: approximation (Robbins and Monro 1951).
_FEWEST_DEVIATIONS, _MOST_DEVIATIONS = 2.0, 4.0
_LATE, _LATE_STEP = 0.004, 0.2
#: Without new rows, what was learned loses half its weight in this time: while everything is
#: refused, nothing is learned.
_HALF_LIFE_S = 30.0


@dataclass
class LatencyEstimator:
    """The line `seconds = idle + slope * cost` through the times of the rows before.

    `cost` is the model's work in hand when a row is sent, including the row. `seconds` count
    from the moment at which the model began with that work. The line begins at the time of a
    row that finds the model idle. At first nothing is known, and every forecast is 0.
    """

    idle_s: float = 0.0
    deviation_s: float = 0.0
    deviations: float = _FEWEST_DEVIATIONS
    #: The average delay by work in hand, that work, and the weight that the averages have by
    #: now: at last 1.
    _excess_s: float = 0.0
    _work: float = 0.0
    _weight: float = 0.0
    _learned_at: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any row was learned from."""
        return self._learned_at > 0

    @property
    def slope_s(self) -> float:
        """Seconds per unit of work."""
        return self._excess_s / self._work if self._work else 0.0

    def learn(self, cost: float, seconds: float, *, was_idle: bool = False) -> None:
        """Learns that work of this `cost` took `seconds`; a single row's if the model
        `was_idle`."""
        error = seconds - self.expect(cost)
        if not self.is_known:
            self.idle_s = seconds
        elif was_idle:
            self.idle_s += _IDLE_GAIN * (seconds - self.idle_s)
            self.deviation_s += _IDLE_GAIN * (abs(error) - self.deviation_s)
            self.deviations += _IDLE_GAIN * (_FEWEST_DEVIATIONS - self.deviations)
        else:
            self.deviation_s += _GAIN * (abs(error) - self.deviation_s)
            # For a model that is never idle, this corrects the effect of one slow row.
            self.idle_s -= _GAIN * max(0.0, self.idle_s - seconds)
            excess_s = max(0.0, seconds - self.idle_s)
            self._excess_s += _GAIN * (excess_s - self._excess_s)
            self._work += _GAIN * (cost - self._work)
            self._weight += _GAIN * (1.0 - self._weight)
        self._learned_at = time.monotonic()

    def judge(self, *, is_late: bool) -> None:
        """Learns whether a row that was admitted by forecast came too late."""
        step = _LATE_STEP * ((1 - _LATE) if is_late else -_LATE)
        wanted = self.deviations + step
        self.deviations = min(_MOST_DEVIATIONS, max(_FEWEST_DEVIATIONS, wanted))

    def expect(self, cost: float) -> float:
        """Seconds that work of this cost usually takes."""
        return self.idle_s + self.slope_s * cost

    def forecast(self, cost: float, window: float) -> float:
        """Seconds that work of this cost hardly ever exceeds if the model has `window` of it
        in hand at a time. By Little's law a full window passes in the time of its last row.

        The first batches have few rows and take nearly as long as full ones, so their slope
        is too steep. What the averages lack in weight counts as a window that took no longer
        than a single row.
        """
        at_once = min(cost, window)
        work = self._work + (1.0 - self._weight) * window
        excess_s = self._excess_s * at_once / work if work else 0.0
        windows = cost / at_once if at_once else 1.0
        in_window_s = (self.idle_s + excess_s) * windows
        worth = 2.0 ** ((self._learned_at - time.monotonic()) / _HALF_LIFE_S)
        return float(worth * (in_window_s + self.deviations * self.deviation_s))

    def fit(self, seconds: float) -> float:
        """The work that can be done within `seconds`."""
        if not self.slope_s:
            return float("inf")
        return max(0.0, seconds - self.idle_s) / self.slope_s
