"""Keeps callers away from what does not answer, until it answers again."""

import time


class CircuitBreaker:
    """Closed while all is well. Opened, it rests; then one caller tries, while the others
    still stay away, and so on until it is closed. Safe to share among greenlets."""

    def __init__(self, rest_s: float) -> None:
        self.rest_s = rest_s
        #: The time at which it has rested; 0 while it is closed.
        self.rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether nobody may try yet."""
        return time.monotonic() < self.rests_until

    def open(self) -> bool:
        """Let it rest. Returns whether it was closed."""
        was_closed = not self.rests_until
        self.rests_until = time.monotonic() + self.rest_s
        return was_closed

    def close(self) -> bool:
        """Let everybody in. Returns whether it was open."""
        was_open = self.rests_until > 0
        self.rests_until = 0.0
        return was_open

    def let_in(self) -> bool:
        """Whether the caller may go on: everybody while it is closed, or the one that tries."""
        return not self.rests_until or self.let_one_try()

    def let_one_try(self) -> bool:
        """Whether the caller is the one that tries after a rest."""
        may_try = self.rests_until > 0 and not self.is_resting
        if may_try:
            self.open()
        return may_try
