"""Whether a model has replicas at all. Serve keeps a row of a model without any until one
comes, and says nothing in the meantime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gateway.backends.backend import KeptStates, ModelState
from gateway.backends.http_pool import HealthProbe
from gateway.backends.ray.looking import WHOLE_S
from gateway.errors import NotReady

#: How long a model may be silent before a row that waits asks how it is.
_QUIET_S = 2.0
_LOOK_S = 0.1
#: How long its rows are refused at once. Then one row tries it, while others are still refused.
_REST_S = 2.0


class CircuitBreaker:
    """The circuit breaker of one model's replicas. Safe to share among greenlets."""

    def __init__(self, model: str, look: Callable[[], ModelState]) -> None:
        self._model = model
        self._look = look
        self._states = KeptStates(self._ask)
        self._heard_at = 0.0
        #: 0 while the model is there.
        self._absent_until = 0.0

    @property
    def state(self) -> ModelState | None:
        """The state of a replica, at most a second old."""
        return self._states.find([self._model])[self._model]

    def hear(self) -> None:
        """Notes that a replica has answered."""
        self._heard_at, self._absent_until = time.monotonic(), 0.0

    def check(self) -> None:
        """Raises NotReady where no replica would answer a row. Lets one through now and
        then, which tries."""
        now = time.monotonic()
        if now < self._absent_until:
            raise self._refuse()
        if self._absent_until:
            self._absent_until = now + _REST_S

    def doubt(self, remaining_s: float) -> HealthProbe | None:
        """Return the probe of a row that waits for long; None if it has too little time
        left."""
        if remaining_s > _QUIET_S + WHOLE_S:
            return HealthProbe(_QUIET_S, self._check_silence)
        return None

    def _check_silence(self) -> None:
        """Raise NotReady if no replica has answered anybody by the end of a second silence:
        where some have just ended, looks may meet those alone."""
        until = time.monotonic() + _QUIET_S
        while self._is_silent:
            state = self.state
            if state and state.is_ready:
                return
            now = time.monotonic()
            if self._is_silent and (now >= until or now < self._absent_until):
                self._absent_until = now + _REST_S
                raise self._refuse()
            time.sleep(_LOOK_S)

    @property
    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard_at >= _QUIET_S

    def _ask(self, names: Sequence[str]) -> dict[str, ModelState]:
        state = self._look()
        if state.is_ready:
            self.hear()
        return dict.fromkeys(names, state)

    def _refuse(self) -> NotReady:
        return NotReady(f"The replicas for {self._model} do not answer.")
