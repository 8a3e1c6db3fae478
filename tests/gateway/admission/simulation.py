"""A gateway's dispatcher before a model that fills batches, in simulated time."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import simpy

import catalog
from contract.tasks import TRANSLATION
from gateway.admission.dispatcher import ModelDispatcher, PendingRow
from gateway.admission.queue import ClientQueue
from gateway.admission.shared_counters import SharedCounters
from gateway.backends.backend import Capacity
from gateway.errors import Overloaded
from gateway.http.request import Call, Deadline

#: The client of all rows.
CLIENT = ClientQueue("a")


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


class Simulation:
    """Requests of one row each, to one model through one process."""

    def __init__(self, speed: Speed, seed: int = 1) -> None:
        self.speed = speed
        self._env = simpy.Environment(1000.0)
        self._random = random.Random(seed)
        model = catalog.Model(
            "ko", TRANSLATION, ("ko",), ("cpu",), catalog.TranslationSection()
        )
        self._dispatcher = ModelDispatcher(
            model, SharedCounters().open("ko"), lambda: Capacity(1)
        )
        #: Rows that were sent, their outcomes, and when they were sent.
        self._queued = simpy.Store(self._env)
        self._env.process(self._work())

    def offer(self, rate: float, seconds: float, limit_s: float) -> Outcome:
        """Arrivals as Poisson has them; `run` lets them happen."""
        outcome, after_s = Outcome(), 0.0
        while (after_s := after_s + self._random.expovariate(rate)) < seconds:
            self._env.process(self._ask(outcome, after_s, limit_s))
        return outcome

    def change(self, speed: Speed, after_s: float) -> None:
        """The model has another speed from then on."""
        timeout = self._env.timeout(after_s)
        timeout.callbacks.append(lambda _: setattr(self, "speed", speed))

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda: self._env.now)
            self._env.run()

    def _ask(
        self, outcome: Outcome, after_s: float, limit_s: float
    ) -> Generator[simpy.Event, Any, None]:
        yield self._env.timeout(after_s)
        cost = self._random.uniform(40, 60)
        caller = Call("a", limit_s, Deadline(self._env.now + limit_s))
        try:
            self._dispatcher.announce(CLIENT, cost, 1, caller)
        except Overloaded:
            outcome.refused += 1
            return
        row, called = PendingRow(cost, 100, caller.deadline), self._env.event()
        row.called = SimpleNamespace(set=lambda: called.triggered or called.succeed())
        self._dispatcher.join(CLIENT, row)
        yield called | self._env.timeout(limit_s)
        if not called.triggered:
            row.end(Overloaded("late"))
        self._dispatcher.withdraw(CLIENT, cost, 1)
        if row.problem:
            outcome.given_up += 1
        else:
            self._queued.put((row, outcome, self._env.now))

    def _work(self) -> Generator[simpy.Event, Any, None]:
        """Batches of what is there, less what is too late."""
        waiting = self._queued.items
        while True:
            first = yield self._queued.get()
            is_full = len(waiting) >= 63
            yield self._env.timeout(0 if is_full else self.speed.delay_s)
            taken = [first, *waiting[:63]]
            del waiting[:63]
            good = sum(row.deadline > self._env.now for row, *_ in taken)
            work_s = self.speed.batch_s + self.speed.row_s * good if good else 0.0
            yield self._env.timeout(work_s)
            for row, outcome, sent_at in taken:
                is_late = row.deadline < self._env.now
                outcome.late += is_late
                outcome.answered += not is_late
                took_s = self._env.now - sent_at
                self._dispatcher.finish(row, took_s, is_answered=not is_late)
