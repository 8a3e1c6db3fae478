"""Estimates how long a model takes for its work, from the rows that it has answered."""

from __future__ import annotations

from typing import NamedTuple, Self

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


class LatencyEstimator(NamedTuple):
    """The line `seconds = idle + slope * cost` through the times of the rows before.

    `cost` is the model's work in hand when a row is sent, including the row. `seconds` count
    from the moment at which the model began with that work. The line begins at the time of a
    row that finds the model idle. At first nothing is known, and every forecast is 0. The
    value never changes: `learn` and `judge` return the next one.
    """

    idle_s: float = 0.0
    deviation_s: float = 0.0
    deviations: float = _FEWEST_DEVIATIONS
    #: The average delay by work in hand, that work, and the weight that the averages have by
    #: now: at last 1.
    excess_s: float = 0.0
    work: float = 0.0
    weight: float = 0.0
    #: The time at which it learned last; 0 if it has not.
    learned_at: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any row was learned from."""
        return self.learned_at > 0

    @property
    def slope_s(self) -> float:
        """Seconds per unit of work."""
        return self.excess_s / self.work if self.work else 0.0

    def learn(
        self, cost: float, seconds: float, now: float, *, was_idle: bool = False
    ) -> Self:
        """Learn that work of this `cost` took `seconds`; a single row's if the model
        `was_idle`."""
        if not self.is_known:
            return self._replace(idle_s=seconds, learned_at=now)
        error_s = abs(seconds - self.expect(cost))
        if was_idle:
            return self._replace(
                idle_s=_follow(self.idle_s, seconds, _IDLE_GAIN),
                deviation_s=_follow(self.deviation_s, error_s, _IDLE_GAIN),
                deviations=_follow(self.deviations, _FEWEST_DEVIATIONS, _IDLE_GAIN),
                learned_at=now,
            )
        # For a model that is never idle, this corrects the effect of one slow row.
        idle_s = _follow(self.idle_s, min(self.idle_s, seconds), _GAIN)
        return self._replace(
            idle_s=idle_s,
            deviation_s=_follow(self.deviation_s, error_s, _GAIN),
            excess_s=_follow(self.excess_s, max(0.0, seconds - idle_s), _GAIN),
            work=_follow(self.work, cost, _GAIN),
            weight=_follow(self.weight, 1.0, _GAIN),
            learned_at=now,
        )

    def judge(self, *, is_late: bool) -> Self:
        """Learn whether a row that was admitted by forecast came too late."""
        step = _LATE_STEP * ((1 - _LATE) if is_late else -_LATE)
        wanted = self.deviations + step
        return self._replace(
            deviations=min(_MOST_DEVIATIONS, max(_FEWEST_DEVIATIONS, wanted))
        )

    def expect(self, cost: float) -> float:
        """Seconds that work of this cost usually takes."""
        return self.idle_s + self.slope_s * cost

    def forecast(self, cost: float, window: float, now: float) -> float:
        """Seconds that work of this cost hardly ever exceeds if the model has `window` of it
        in hand at a time. By Little's law a full window passes in the time of its last row.

        The first batches have few rows and take nearly as long as full ones, so their slope
        is too steep. What the averages lack in weight counts as a window that took no longer
        than a single row.
        """
        at_once = min(cost, window)
        work = self.work + (1.0 - self.weight) * window
        excess_s = self.excess_s * at_once / work if work else 0.0
        windows = cost / at_once if at_once else 1.0
        in_window_s = (self.idle_s + excess_s) * windows
        worth = 2.0 ** ((self.learned_at - now) / _HALF_LIFE_S)
        return float(worth * (in_window_s + self.deviations * self.deviation_s))

    def fit(self, seconds: float) -> float:
        """The work that can be done within `seconds`."""
        if not self.slope_s:
            return float("inf")
        return max(0.0, seconds - self.idle_s) / self.slope_s


def _follow(average: float, value: float, gain: float) -> float:
    return average + gain * (value - average)
