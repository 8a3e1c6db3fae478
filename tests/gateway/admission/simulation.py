"""A gateway's dispatcher before a model that fills batches, in simulated time."""

from __future__ import annotations

import heapq
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest
from gevent.event import Event

import catalog
from contract.tasks import TRANSLATION
from gateway.admission.dispatcher import ModelDispatcher, PendingRow
from gateway.admission.queue import ClientQueue
from gateway.admission.shared_counters import SharedCounters
from gateway.backends.backend import Capacity
from gateway.errors import Overloaded
from gateway.http.request import Call, Deadline


@dataclass(frozen=True)
class Speed:
    """Seconds that a batch takes, for itself and for each of its rows."""

    batch_s: float
    row_s: float
    #: How long TorchServe waits for a batch of 64 to fill.
    delay_s: float = 0.1

    @property
    def capacity(self) -> float:
        """Rows per second in full batches."""
        return 64 / (self.batch_s + 64 * self.row_s)


@dataclass
class Outcome:
    """The fates of requests."""

    answered: int = 0
    refused: int = 0
    #: Sent to the model, and not back in time.
    late: int = 0
    #: Waited in the gateway, and were not sent after all.
    given_up: int = 0


#: A row, the outcome to which it belongs, and when it was sent.
Sent = tuple[PendingRow, Outcome, float]
#: The client of all rows.
CLIENT = ClientQueue("a")


class Called(Event):  # type: ignore[misc]
    """Says that a row may be sent, or has ended. To look at all that wait would take
    most of a simulation's time."""

    def __init__(self, say: Callable[[], None]) -> None:
        super().__init__()
        self._say = say

    def set(self) -> None:
        super().set()
        self._say()


@dataclass
class Simulation:
    """Requests of one row each, to one model through one process."""

    speed: Speed
    seed: int = 1
    now: float = 1000.0

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._random = random.Random(self.seed)
        self._waiting: dict[PendingRow, Outcome] = {}
        self._called: list[PendingRow] = []
        self._queued: deque[Sent] = deque()
        self._is_busy = False
        model = catalog.Model(
            "ko", TRANSLATION, ("ko",), ("cpu",), catalog.TranslationSection()
        )
        self.dispatcher = ModelDispatcher(
            model, SharedCounters().open("ko"), lambda: Capacity(1)
        )

    def offer(self, rate: float, seconds: float, limit_s: float) -> Outcome:
        """Arrivals as Poisson has them; `run` lets them happen."""
        outcome = Outcome()
        at = self.now
        while (at := at + self._random.expovariate(rate)) < self.now + seconds:
            self._at(at, lambda: self._arrive(outcome, limit_s))
        return outcome

    def change(self, speed: Speed, after_s: float) -> None:
        """The model has another speed from then on."""
        self._at(self.now + after_s, lambda: setattr(self, "speed", speed))

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda: self.now)
            while self._events:
                self.now, _, happen = heapq.heappop(self._events)
                happen()
                self._send()

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), happen))

    def _arrive(self, outcome: Outcome, limit_s: float) -> None:
        cost = self._random.uniform(40, 60)
        caller = Call("a", limit_s, Deadline(self.now + limit_s))
        try:
            self.dispatcher.announce(CLIENT, cost, 1, caller)
        except Overloaded:
            outcome.refused += 1
            return
        row = PendingRow(cost, 100, caller.deadline)
        row.called = Called(partial(self._called.append, row))
        self._waiting[row] = outcome
        self.dispatcher.join(CLIENT, row)
        self._at(caller.deadline, lambda: self._expire(row))

    def _expire(self, row: PendingRow) -> None:
        if row in self._waiting:
            row.end(Overloaded("late"))

    def _send(self) -> None:
        """Send the rows that may be sent to the model."""
        while self._called:
            row = self._called.pop(0)
            outcome = self._waiting.pop(row)
            self.dispatcher.withdraw(CLIENT, row.cost, 1)
            if row.problem:
                outcome.given_up += 1
                continue
            self._queued.append((row, outcome, self.now))
            if not self._is_busy:
                self._is_busy = True
                self._at(self.now + self.speed.delay_s, self._begin)

    def _begin(self) -> None:
        """A batch with what is there, less what is too late."""
        taken = [self._queued.popleft() for _ in range(min(64, len(self._queued)))]
        good = [entry for entry in taken if entry[0].deadline > self.now]
        work_s = self.speed.batch_s + self.speed.row_s * len(good) if good else 0.0
        self._at(self.now + work_s, lambda: self._end(taken))

    def _end(self, rows: list[Sent]) -> None:
        for row, outcome, sent_at in rows:
            is_late = row.deadline < self.now
            outcome.late += is_late
            outcome.answered += not is_late
            self.dispatcher.finish(row, self.now - sent_at, is_answered=not is_late)
        self._send()
        self._is_busy = bool(self._queued)
        if self._is_busy:
            delay_s = 0 if len(self._queued) >= 64 else self.speed.delay_s
            self._at(self.now + delay_s, self._begin)
