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

#: The time for which a look at the models is good.
_STATES_S = 1.0


@dataclass(eq=False)
class Cancellation:
    """A caller's way to give up a row that the backend works at."""

    is_cancelled: bool = False
    #: The number under which the worker sees whether somebody still waits for the answer.
    number: int | None = None
    #: The function that stops the backend's work at it.
    stop: Callable[[], None] | None = None
    #: The time for which the row waited until its model was loaded.
    loading_s: float = 0.0

    def cancel(self) -> None:
        """Say that nobody waits for the answer any more. May be called in the hub."""
        self.is_cancelled = True
        if self.stop:
            self.stop()


@dataclass(frozen=True)
class RowRequest:
    """A request to a handler: a body, and parameters beside it."""

    body: bytes
    content_type: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False)
    #: Its place in a client's trace.
    trace: str = ""


def write_row(content: Mapping[str, Any], trace: str = "") -> RowRequest:
    """A row that is a JSON object."""
    return RowRequest(to_json(content), "application/json", trace=trace)


@dataclass(frozen=True)
class ModelState:
    """A backend's state of a model."""

    #: Whether somebody answers for it, maybe after it is loaded again.
    is_ready: bool
    batch_size: int
    #: Rows that wait in the backend, behind the gateway's own queue.
    queued_rows: int
    #: The reason why nobody does, if that is known.
    reason: str = ""
    #: Another one means that other workers answer, maybe with other weights.
    life: str = ""
    #: Whether it has to be loaded again first.
    is_unloaded: bool = False


@dataclass(frozen=True)
class Capacity:
    """The amount of a model's work that fits behind the gateway."""

    #: Batches that are computed at the same time.
    workers: int
    #: Bytes of rows. Programs hold a row several times; TorchServe on a heap of 1 GB.
    most_bytes: int = 64 << 20


class Backend(Protocol):
    """A place that answers rows; safe to share among greenlets."""

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        """The handler's answer to `row`; `deadline` is in seconds of
        this machine's monotonic clock, which no correction of the time moves.

        Raises Overloaded, NotReady, DeadlineExceeded or RowProblem; ClientGone if the
        backend has noticed that the row was given up.
        """

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the state of each model; None for one that cannot be asked."""

    def capacity(self, model: Model) -> Capacity:
        """Return the amount of work that a model can have in hand: by itself, as the map has
        it."""
        return Capacity(model.workers)


class KeptStates:
    """The last state of each model, kept for a moment. Safe to share among greenlets: one
    looks, all others use what it has seen."""

    def __init__(
        self,
        look: Callable[[Sequence[str]], Mapping[str, ModelState | None]],
        keep_s: float | None = None,
    ) -> None:
        self._look, self._keep_s = look, keep_s
        self._seen: dict[str, tuple[float, ModelState | None]] = {}
        self._looking = threading.Lock()

    def find(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """The state of each model, not older than that."""
        with self._looking:
            now = time.monotonic()
            old = [name for name in models if self._seen.get(name, (0.0,))[0] < now]
            seen = self._look(old) if old else {}
            until = time.monotonic() + (self._keep_s or _STATES_S)
            self._seen |= {name: (until, state) for name, state in seen.items()}
            return {name: self._seen[name][1] for name in models}
