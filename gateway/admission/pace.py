"""Learns how long a model takes from the rows it has answered, and forecasts how long
the next ones will take.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

#: How much of an average the next row is. The rows of a batch tell the same thing, so that a
#: batch of 64 replaces nearly all of it.
_GAIN = 0.05
#: Rows that find the model idle are rarer.
_IDLE_GAIN = 0.3
#: A deviation is followed as by Jacobson and Karels (SIGCOMM 1988). TCP adds four of them to
#: a round trip; here they become as many as leave this part of the rows late, by stochastic
#: approximation (Robbins and Monro 1951).
_FEWEST_DEVIATIONS, _MOST_DEVIATIONS = 2.0, 4.0
_LATE, _LATE_STEP = 0.004, 0.2
#: What was learned is worth half of it after so long without another row: nothing is
#: learned while everything is refused.
_HALF_LIFE_S = 30.0


@dataclass
class Pace:
    """The line `seconds = idle + slope * cost` through the times of the rows before.

    `cost` is all the work that the model has in hand when a row is sent, its own included,
    and `seconds` go from the moment at which the model began with that work. The line
    begins with what a row takes that finds the model idle. Nothing is known at first, and
    every forecast is 0.
    """

    idle_s: float = 0.0
    deviation_s: float = 0.0
    deviations: float = _FEWEST_DEVIATIONS
    #: By how much rows took longer because of the work in hand, and that work.
    _excess_s: float = 0.0
    _work: float = 0.0
    _learned_at: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether a row has been learned from."""
        return self._learned_at > 0

    @property
    def slope_s(self) -> float:
        """Seconds for a unit of work."""
        return self._excess_s / self._work if self._work else 0.0

    def learn(self, cost: float, seconds: float, *, was_idle: bool = False) -> None:
        """So much work, which is one row's where the model `was_idle`, has taken so long."""
        error = seconds - self.expect(cost)
        if not self.is_known:
            self.idle_s = seconds
        elif was_idle:
            self.idle_s += _IDLE_GAIN * (seconds - self.idle_s)
            self.deviation_s += _IDLE_GAIN * (abs(error) - self.deviation_s)
            self.deviations += _IDLE_GAIN * (_FEWEST_DEVIATIONS - self.deviations)
        else:
            self.deviation_s += _GAIN * (abs(error) - self.deviation_s)
            # A model that is never idle shows in this way that one slow row was not usual.
            self.idle_s -= _GAIN * max(0.0, self.idle_s - seconds)
            excess_s = max(0.0, seconds - self.idle_s)
            gain = _GAIN if self._work else 1.0
            self._excess_s += gain * (excess_s - self._excess_s)
            self._work += gain * (cost - self._work)
        self._learned_at = time.monotonic()

    def judge(self, *, is_late: bool) -> None:
        """A row was admitted because the forecast gave it enough time."""
        step = _LATE_STEP * ((1 - _LATE) if is_late else -_LATE)
        wanted = self.deviations + step
        self.deviations = min(_MOST_DEVIATIONS, max(_FEWEST_DEVIATIONS, wanted))

    def expect(self, cost: float) -> float:
        """Seconds that so much work usually takes."""
        return self.idle_s + self.slope_s * cost

    def forecast(self, cost: float, window: float) -> float:
        """Seconds that so much work hardly exceeds, of which the model has `window` in hand
        at a time. By Little's law a full window passes in the time that its last row
        takes."""
        at_once = min(cost, window)
        in_window_s = self.expect(at_once) * (cost / at_once if at_once else 1.0)
        worth = 2.0 ** ((self._learned_at - time.monotonic()) / _HALF_LIFE_S)
        return float(worth * (in_window_s + self.deviations * self.deviation_s))

    def fit(self, seconds: float) -> float:
        """The work that is done within `seconds`."""
        if not self.slope_s:
            return float("inf")
        return max(0.0, seconds - self.idle_s) / self.slope_s
