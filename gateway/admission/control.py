"""The gateway's only path to the models. A request announces its rows, and is refused at once
if they cannot finish in time; then each row waits for its turn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from catalog import Model
from contract.variables import find_tracer
from gateway.admission.dispatcher import ModelDispatcher, PendingRow, late
from gateway.admission.queue import ClientQueue
from gateway.admission.shared_counters import SharedCounters
from gateway.backends.backend import Backend, Cancellation, RowRequest
from gateway.errors import ClientGone, DeadlineExceeded
from gateway.http.connection import DisconnectWatcher
from gateway.http.request import Call

#: The milliseconds for a batch, and for loading its model before, in a handler's answer.
_COMPUTE_MS, _LOADING_MS = "compute_ms", "loading_ms"
#: Seconds during which one refusal makes others likely.
_MOMENT_S = 1.0


class Admission:
    """The admission of requests. Processes with the same folder share their counters. Safe to
    share among greenlets."""

    def __init__(
        self, backend: Backend, models: Sequence[Model], folder: Path | None = None
    ) -> None:
        self.backend, self.tracer = backend, find_tracer()
        self.counters = SharedCounters(folder)
        self.disconnects = DisconnectWatcher()
        self._dispatchers = {
            model.name: ModelDispatcher(
                model, self.counters.open(model.name), partial(backend.capacity, model)
            )
            for model in models
        }

    def count_waiting(self) -> dict[str, float]:
        """Return the number of waiting rows in all processes, by model."""
        return {name: each.count_waiting() for name, each in self._dispatchers.items()}

    def is_unused_since(self, model: str, then: float) -> bool:
        """Whether no process has had a row for `model` since then."""
        return self._dispatchers[model].is_unused_since(then)

    @property
    def is_refusing(self) -> bool:
        """Whether a request was refused a moment ago."""
        then = time.monotonic() - _MOMENT_S
        return any(each.refused_at > then for each in self._dispatchers.values())

    def check(self, model: str, caller: Call, costs: Sequence[float]) -> None:
        """Raise Overloaded if `admit` would. The rows themselves need not exist yet."""
        queue = ClientQueue(caller.address)
        self._dispatchers[model].check(queue, sum(costs), len(costs), caller)

    def admit(
        self, model: str, caller: Call, costs: Sequence[float], *, is_bulk: bool
    ) -> Ticket:
        """Admit rows of these costs, in any unit, to `model`. Raises ClientGone, and Overloaded
        if they cannot finish before the deadline."""
        if caller.has_gone():
            raise ClientGone
        dispatcher = self._dispatchers[model]
        cost = sum(costs)
        rows = len(costs)
        queue = ClientQueue(caller.address, is_bulk)
        dispatcher.announce(queue, cost, rows, caller)
        return Ticket(self, dispatcher, model, queue, caller, cost, rows)


@dataclass(eq=False)
class Ticket:
    """The rows of one admitted request, until it is closed. If the client disconnects, waiting
    rows are dropped, and the backend is asked to skip those already sent."""

    _admission: Admission
    _dispatcher: ModelDispatcher
    _model: str
    _queue: ClientQueue
    _caller: Call
    #: The cost and number of the announced rows that have not joined the queue yet.
    _cost: float
    _rows: int
    _waiting: set[PendingRow] = field(default_factory=set)
    _cancellations: set[Cancellation] = field(default_factory=set)
    _is_gone: bool = False

    def __post_init__(self) -> None:
        client, disconnects = self._caller.client, self._admission.disconnects
        self._watched = disconnects.watch(client, self.leave)

    def close(self) -> None:
        """Withdraw the rows that have not joined the queue, and stop watching the client."""
        self._admission.disconnects.forget(self._watched, self.leave)
        self._withdraw()

    def predict(
        self, row: RowRequest, cost: float, deadline: float | None = None
    ) -> dict[str, Any]:
        """Wait for the row's turn and return the backend's answer, by the caller's deadline or
        an earlier one. Raises ClientGone, Overloaded and the errors of `Backend.predict`."""
        if self._is_gone:
            raise ClientGone
        announced = self._take(cost, 1)
        until = deadline or self._caller.deadline
        pending = PendingRow(cost, len(row.body), until, announced)
        self._waiting.add(pending)
        self._dispatcher.join(self._queue, pending)
        try:
            self._dispatcher.wait(pending)
        finally:
            self._waiting.discard(pending)
            if (tracer := self._admission.tracer) and self._caller.trace:
                tracer.add_queue(self._caller.trace, pending.joined_at)
        return self._ask_backend(row, pending)

    def leave(self) -> None:
        """Drop all rows, because the client has disconnected."""
        self._is_gone = True
        for pending in self._waiting:
            pending.end(ClientGone())
        for cancellation in self._cancellations:
            cancellation.cancel()
        self._withdraw()

    def _withdraw(self) -> None:
        self._dispatcher.withdraw(self._queue, *self._take(self._cost, self._rows))

    def _ask_backend(self, row: RowRequest, pending: PendingRow) -> dict[str, Any]:
        counters = self._admission.counters
        number = counters.take_number()
        cancellation = row.cancellation
        if number is not None:
            cancellation.number = number
            cancellation.stop = partial(counters.revoke, number)
        self._cancellations.add(cancellation)
        began, is_answered = time.monotonic(), False
        try:
            predict = self._admission.backend.predict
            answer = predict(self._model, row, deadline=pending.deadline)
            is_answered = True
            compute_s = answer.pop(_COMPUTE_MS, 0.0) / 1000
            cancellation.loading_s += answer.pop(_LOADING_MS, 0.0) / 1000
            queue_s = began - pending.joined_at
            backend_s = time.monotonic() - began
            load_s = cancellation.loading_s
            self._caller.timing.note(queue_s, backend_s, compute_s, load_s)
            return answer
        except DeadlineExceeded as error:
            if pending.was_idle or self._dispatcher.is_silent_since(began):
                raise
            raise late() from error
        finally:
            seconds = time.monotonic() - began - cancellation.loading_s
            self._dispatcher.finish(pending, seconds, is_answered=is_answered)
            self._cancellations.discard(cancellation)
            if number is not None:
                counters.give_back(number)

    def _take(self, cost: float, rows: int) -> tuple[float, int]:
        """Take announced rows, if any are left: an upload may send more than it announced."""
        cost, rows = min(cost, self._cost), min(rows, self._rows)
        self._cost -= cost
        self._rows -= rows
        return cost, rows
