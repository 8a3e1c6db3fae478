"""How long a model takes: the times of rows that were answered come in, and the time that
the next one will take goes out.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How much of a forecast's error the next forecast mends, once a few rows are known. The
#: rows of a batch tell the same thing, so a batch of 64 mends nearly all of it.
_GAIN = 0.05
#: A deviation is followed as by Jacobson and Karels (SIGCOMM 1988), four of which TCP adds
#: to a round trip; a queue's times spread less than a network's.
_DEVIATIONS = 2.0


@dataclass
class Pace:
    """The line `seconds = start + slope * cost` through the times of the rows before.

    `cost` is the work that the model had in hand when the row was sent, its own included.
    Least mean squares (Widrow and Hoff 1960), normalized, so that costs need no unit: where
    the work in hand is always the same, the error goes where the work puts it, and what is
    known of other amounts stays. Nothing is known at first, and every forecast is 0.
    """

    start_s: float = 0.0
    slope_s: float = 0.0
    deviation_s: float = 0.0
    #: The usual work in hand.
    _scale: float = 0.0
    _rows: int = 0

    def learn(self, cost: float, seconds: float) -> None:
        """A row was answered so many seconds after it was sent."""
        self._rows += 1
        gain = max(_GAIN, 1 / self._rows)
        error = seconds - self.expect(cost)
        self._scale += gain * (cost - self._scale)
        relative = cost / self._scale
        if self._rows > 1:  # the first is no deviation
            self.deviation_s += gain * (abs(error) - self.deviation_s)
        step = gain * error / (1 + relative * relative)
        self.start_s = max(0.0, self.start_s + step)
        self.slope_s = max(0.0, self.slope_s + step * relative / self._scale)

    def forecast(self, cost: float, window: float) -> float:
        """Seconds until the last of so much work is done, the first `window` of which can
        be with the model at once. By Little's law a full window passes in the time that
        its last row takes."""
        at_once = min(cost, window)
        in_window_s = self.expect(at_once) * (cost / at_once if at_once else 1.0)
        return in_window_s + _DEVIATIONS * self.deviation_s

    @property
    def is_known(self) -> bool:
        """Whether a row has been learned from."""
        return self._rows > 0

    def expect(self, cost: float) -> float:
        """Seconds that a row usually takes that makes the work in hand so much."""
        return self.start_s + self.slope_s * cost

    def fit(self, seconds: float) -> float:
        """The work that is done in so many seconds."""
        if not self.slope_s:
            return float("inf")
        return max(0.0, seconds - self.start_s) / self.slope_s
