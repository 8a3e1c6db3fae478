"""How long one attempt at a row may take, so that a second one can follow before the
deadline.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The share of the time left that an attempt gets, unless the model usually needs more.
_SHARE = 0.5
#: The weight of the next answer in the averages, and how many deviations hardly any answer
#: exceeds: as TCP judges when to send again (RFC 6298).
_GAIN = 0.1
_DEVIATIONS = 4.0


@dataclass
class AttemptTimeout:
    """The time limit of an attempt, learned from one model's answers.

    With 30 s left an attempt gets 15 s. A model that usually takes 12 ± 2 s gets all 30 s,
    because an answer after 15 s is nothing unusual, and asking twice would only make it
    slower.
    """

    _mean_s: float = 0.0
    _deviation_s: float = 0.0

    def learn(self, seconds: float) -> None:
        """Learns from an answer, or from an attempt that was given up after so long."""
        if not self._mean_s:
            self._mean_s, self._deviation_s = seconds, seconds / 2
            return
        error_s = seconds - self._mean_s
        self._mean_s += _GAIN * error_s
        self._deviation_s += _GAIN * (abs(error_s) - self._deviation_s)

    def limit(self, remaining_s: float) -> float:
        """The seconds that an attempt may take of those that remain."""
        usual_s = self._mean_s + _DEVIATIONS * self._deviation_s
        share_s = _SHARE * remaining_s
        return share_s if usual_s <= share_s else remaining_s
