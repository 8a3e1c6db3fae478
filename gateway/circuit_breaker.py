"""A circuit breaker: stops calls to a service that does not answer, until it answers again."""

import time


class CircuitBreaker:
    """A breaker that starts closed. Once open, it lets one caller try after each rest of
    `rest_s` seconds, until it is closed. Safe to share among greenlets."""

    def __init__(self, rest_s: float) -> None:
        self.rest_s = rest_s
        #: The end of the rest by the monotonic clock; 0 while closed.
        self.rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether no call may try yet."""
        return time.monotonic() < self.rests_until

    def open(self) -> bool:
        """Open the breaker, or restart its rest. Return whether it was closed."""
        was_closed = not self.rests_until
        self.rests_until = time.monotonic() + self.rest_s
        return was_closed

    def close(self) -> bool:
        """Close the breaker. Return whether it was open."""
        was_open = self.rests_until > 0
        self.rests_until = 0.0
        return was_open

    def let_one_try(self) -> bool:
        """Whether the caller is the one that may try after a rest; another rest begins then."""
        may_try = self.rests_until > 0 and not self.is_resting
        if may_try:
            self.open()
        return may_try
