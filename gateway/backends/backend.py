"""The gateway's interface to the models: the `Backend` protocol, and the values that pass
through it.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import to_json

from catalog import Model

#: Seconds for which the states of models are reused.
_STATES_S = 1.0


@dataclass(eq=False)
class Cancellation:
    """A caller's handle to cancel a row in the backend."""

    is_cancelled: bool = False
    #: The number by which the worker checks whether the answer is still wanted.
    number: int | None = None
    #: The function that stops the backend's work on the row.
    stop: Callable[[], None] | None = None
    #: Seconds for which the row waited for its model to be loaded.
    loading_s: float = 0.0

    def cancel(self) -> None:
        """Cancel the row: its answer is no longer wanted. May be called in the hub."""
        self.is_cancelled = True
        if self.stop:
            self.stop()


@dataclass(frozen=True)
class RowRequest:
    """A request to a handler: a body and parameters."""

    body: bytes
    content_type: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False)
    #: Its place in a client's trace.
    trace: str = ""


def write_row(content: Mapping[str, Any], trace: str = "") -> RowRequest:
    """Return a row whose body is a JSON object."""
    return RowRequest(to_json(content), "application/json", trace=trace)


@dataclass(frozen=True)
class ModelState:
    """The state of a model in a backend."""

    #: Whether it can answer, possibly after it is loaded again.
    is_ready: bool
    batch_size: int
    #: Rows that wait in the backend, behind the gateway's own queue.
    queued_rows: int
    #: The reason it cannot, if known.
    reason: str = ""
    #: A different one means that other workers answer, possibly with other weights.
    life: str = ""
    #: Whether it must be loaded again first.
    is_unloaded: bool = False


@dataclass(frozen=True)
class Capacity:
    """The amount of work that a model can have in hand."""

    #: Batches computed at the same time.
    workers: int
    #: Bytes of rows. Programs copy a row several times; TorchServe has a heap of 1 GB.
    most_bytes: int = 64 << 20


class Backend(Protocol):
    """The interface of a backend, which answers rows. Safe to share among greenlets."""

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        """Return the handler's answer to `row`. The `deadline` is in seconds of this machine's
        monotonic clock, which adjustments of the time do not affect.

        Raises Overloaded, NotReady, DeadlineExceeded or RowProblem, and ClientGone if the
        backend has noticed that the row was cancelled."""

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the state of each model; None for one that cannot be asked."""

    def capacity(self, model: Model) -> Capacity:
        """Return how much work a model can have in hand; by default, as the map specifies."""
        return Capacity(model.workers)


class KeptStates:
    """A cache of models' states. Greenlets may share it: one reads a state for all others."""

    def __init__(
        self,
        look: Callable[[Sequence[str]], Mapping[str, ModelState | None]],
        keep_s: float | None = None,
    ) -> None:
        self._look, self._keep_s = look, keep_s
        self._seen: dict[str, tuple[float, ModelState | None]] = {}
        self._looking = threading.Lock()

    def find(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the state of each model, at most `keep_s` old."""
        with self._looking:
            now = time.monotonic()
            old = [name for name in models if self._seen.get(name, (0.0,))[0] < now]
            seen = self._look(old) if old else {}
            until = time.monotonic() + (self._keep_s or _STATES_S)
            self._seen |= {name: (until, state) for name, state in seen.items()}
            return {name: self._seen[name][1] for name in models}
