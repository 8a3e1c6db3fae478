"""Keeps rows away from what does not answer, an address or a model, and finds out when it
answers again.
"""

from __future__ import annotations

import time


class CircuitBreaker:
    """Closed while all is well. Opened, it rests; then one caller tries, while the others
    still stay away, and so on until it is closed. Safe to share among greenlets."""

    def __init__(self, rest_s: float) -> None:
        self.rest_s = rest_s
        #: The time at which it has rested; 0 while it is closed.
        self.rests_until = 0.0

    @property
    def is_open(self) -> bool:
        return self.rests_until > 0

    @property
    def is_resting(self) -> bool:
        """Whether nobody may try yet."""
        return time.monotonic() < self.rests_until

    def open(self) -> None:
        """Begin a rest."""
        self.rests_until = time.monotonic() + self.rest_s

    def close(self) -> None:
        """Let everybody in again."""
        self.rests_until = 0.0

    def let_one_try(self) -> bool:
        """Whether the caller is the one that tries after a rest."""
        if not self.is_open or self.is_resting:
            return False
        self.open()
        return True
