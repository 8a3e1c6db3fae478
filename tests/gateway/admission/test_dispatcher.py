"""The share of a model's capacity that yields answers in time under load, and refusals.

The numbers come from a simulation; `python -m benchmarks overload` measures the stack.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import simpy

from gateway.admission.dispatcher import ModelDispatcher, PendingRow
from gateway.admission.queue import ClientQueue
from gateway.admission.shared_counters import ModelLoad, SharedCounters
from gateway.backends.backend import Capacity
from gateway.errors import ClientGone, DeadlineExceeded, Overloaded
from gateway.http.request import Call, Deadline
from tests.gateway.conftest import make_call, make_model

#: The client of all simulated rows.
CLIENT = ClientQueue("a")


def make(folder: Path | None = None, **settings: Any) -> ModelDispatcher:
    model, counters = make_model("ko", **settings), SharedCounters(folder).open("ko")
    return ModelDispatcher(model, counters, lambda: Capacity(model.workers))


def test_a_model_is_used_while_a_row_waits_and_until_it_is_answered():
    dispatcher, row = make(), PendingRow(1, 1, time.monotonic() + 60)
    assert dispatcher.is_unused_since(time.monotonic())
    dispatcher.join(CLIENT, row)
    assert not dispatcher.is_unused_since(time.monotonic())
    sent_at = time.monotonic()
    dispatcher.finish(row, 0.0, is_answered=True)
    assert not dispatcher.is_unused_since(sent_at)
    assert dispatcher.is_unused_since(time.monotonic())


def test_rows_that_were_dropped_do_not_delay_their_clients_next_one():
    dispatcher, until = make(), time.monotonic() + 60
    busy, dropped = ([PendingRow(1, 1, until) for _ in range(n)] for n in (500, 64))
    for row in busy:
        dispatcher.join(ClientQueue("b"), row)
    for row in dropped:
        dispatcher.join(CLIENT, row)
        row.end(ClientGone())
        with pytest.raises(ClientGone):
            dispatcher.wait(row)
    following = PendingRow(1, 1, until)
    dispatcher.join(CLIENT, following)
    for row in busy[:8]:
        dispatcher.finish(row, 0.01, is_answered=True)
    assert following.is_sent


@dataclass(frozen=True)
class Speed:
    """A model's speed: the seconds for a batch, plus those for each of its rows."""

    batch_s: float
    row_s: float
    #: The time that TorchServe waits for a batch of 64 to fill.
    delay_s: float = 0.1

    @property
    def capacity(self) -> float:
        """Rows per second in full batches."""
        return 64 / (self.batch_s + 64 * self.row_s)


class Simulation:
    """Requests of one row each, to one model through one process, in simulated time."""

    def __init__(self, speed: Speed, seed: int = 1) -> None:
        self.speed = speed
        self._env = simpy.Environment(1000.0)
        self._random = random.Random(seed)
        self._dispatcher = make()
        #: The sent rows, each with its counter of fates and the time at which it was sent.
        self._queued = simpy.Store(self._env)
        self._env.process(self._work())

    def offer(self, rate: float, seconds: float, limit_s: float) -> Counter[str]:
        """Schedule Poisson arrivals; `run` simulates them and counts their fates."""
        fates, after_s = Counter[str](), 0.0
        while (after_s := after_s + self._random.expovariate(rate)) < seconds:
            self._env.process(self._ask(fates, after_s, limit_s))
            fates["offered"] += 1
        return fates

    def change(self, speed: Speed, after_s: float) -> None:
        """Change the model's speed after a delay."""
        timeout = self._env.timeout(after_s)
        timeout.callbacks.append(lambda _: setattr(self, "speed", speed))

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda: self._env.now)
            self._env.run()

    def _ask(
        self, fates: Counter[str], after_s: float, limit_s: float
    ) -> Generator[simpy.Event, Any, None]:
        yield self._env.timeout(after_s)
        cost = self._random.uniform(40, 60)
        caller = Call("a", limit_s, Deadline(self._env.now + limit_s))
        try:
            self._dispatcher.announce(CLIENT, cost, 1, caller)
        except Overloaded:
            return
        row, called = PendingRow(cost, 100, caller.deadline), self._env.event()
        row.called = SimpleNamespace(set=lambda: called.triggered or called.succeed())
        self._dispatcher.join(CLIENT, row)
        yield called | self._env.timeout(limit_s)
        if not called.triggered:
            row.end(Overloaded("late"))
        self._dispatcher.withdraw(CLIENT, cost, 1)
        if not row.problem:
            self._queued.put((row, fates, self._env.now))

    def _work(self) -> Generator[simpy.Event, Any, None]:
        """Answer batches of the queued rows; rows past their deadline cost no time."""
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
            for row, fates, sent_at in taken:
                is_answered = row.deadline >= self._env.now
                fates["answered" if is_answered else "late"] += 1
                took_s = self._env.now - sent_at
                self._dispatcher.finish(row, took_s, is_answered=is_answered)


#: The phrasebook on two cores, with TorchServe's default batch delay and a tuned one.
PHRASEBOOK, TUNED = Speed(0.01, 0.0033), Speed(0.01, 0.0033, delay_s=0.005)
#: A model the size of M2M100-418M.
LARGE = Speed(0.3, 0.07)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "limit_s", "least", "runs"),
    [
        pytest.param(PHRASEBOOK, 30, 0.95, 1, id="phrasebook, 30 s"),
        pytest.param(TUNED, 0.5, 0.9, 1, id="phrasebook, 500 ms, short window"),
        # With only two hundred rows, chance decides a run.
        pytest.param(LARGE, 2, 0.5, 10, id="large, 2 s"),
    ],
)
def test_no_load_keeps_the_model_from_answering_in_time(
    speed, limit_s, least, runs, monkeypatch
):
    simulations = [Simulation(speed, seed=seed) for seed in range(1, runs + 1)]
    seconds = 15 if speed is LARGE else 5
    for times in (0.9, 2, 10):
        fates = Counter[str]()
        for simulation in simulations:
            found = simulation.offer(times * speed.capacity, seconds, limit_s)
            simulation.run(monkeypatch)
            fates += found
        answered, late = fates["answered"], fates["late"]
        expected = min(1.0, least / 0.9) * 0.9 if times < 1 else least
        assert answered / (runs * seconds) >= expected * 0.95 * speed.capacity
        assert late <= 0.05 * (answered + late)


def test_a_burst_that_a_new_gateway_can_answer_in_time_is_answered(monkeypatch):
    simulation = Simulation(TUNED)
    simulation.offer(2, 5, 30)
    simulation.run(monkeypatch)
    # The first batches have few rows and take longer than full ones do later.
    simulation.speed = replace(TUNED, batch_s=0.5)
    simulation.change(TUNED, after_s=1)
    fates = simulation.offer(1000, 1, 30)
    simulation.run(monkeypatch)
    assert fates["answered"] == fates["offered"] > 900


def test_after_the_load_has_gone_everything_is_answered_again(monkeypatch):
    simulation = Simulation(LARGE)
    simulation.offer(10 * LARGE.capacity, 30, 2)
    simulation.run(monkeypatch)
    fates = simulation.offer(0.3 * LARGE.capacity, 60, 2)
    simulation.run(monkeypatch)
    assert fates["answered"] >= 0.9 * fates["offered"]


def join(
    dispatcher: ModelDispatcher, count: int, *, size: int = 1, client: str = "a"
) -> list[PendingRow]:
    caller = make_call(address=client)
    dispatcher.announce(ClientQueue(client), float(count), count, caller)
    rows = [PendingRow(1.0, size, caller.deadline) for _ in range(count)]
    for row in rows:
        dispatcher.join(ClientQueue(client), row)
    return rows


def sent(rows: list[PendingRow]) -> int:
    return sum(row.is_sent for row in rows)


def test_a_model_gets_one_batch_and_the_next_and_more_once_its_capacity_grows():
    assert sent(join(make(batch_size=8), 40)) == 16
    capacity = Capacity(1)
    model = make_model(batch_size=8)
    dispatcher = ModelDispatcher(model, SharedCounters().open("ko"), lambda: capacity)
    rows = join(dispatcher, 100, size=8 << 20)
    assert sent(rows) == 8
    capacity = Capacity(4, 4 * Capacity.most_bytes)
    dispatcher.finish(rows[0], 0.1, is_answered=True)
    assert sent(rows) == 1 + 32
    capacity = Capacity(4, 400 * Capacity.most_bytes)
    dispatcher.finish(rows[1], 0.1, is_answered=True)
    assert sent(rows) == 2 + 64


def test_only_the_time_limits_of_admitted_rows_make_the_work_in_hand_short():
    dispatcher, client = make(), ClientQueue("hasty")
    (row,) = join(dispatcher, 1)
    dispatcher.finish(row, 1.0, is_answered=True)
    before_s = dispatcher._limit_s
    for _ in range(9):
        with suppress(Overloaded):
            dispatcher.announce(client, 9.0, 9, make_call(0.001))
    assert dispatcher._limit_s == before_s
    dispatcher.announce(client, 1.0, 1, make_call(10))
    assert dispatcher._limit_s < before_s


def test_what_has_no_time_is_refused_with_the_time_that_it_would_take():
    dispatcher = make(batch_size=1)
    rows = join(dispatcher, 10)
    for row in rows[:6]:
        dispatcher.finish(row, 2.0, is_answered=True)
    caller = make_call(3)
    with pytest.raises(Overloaded, match="take about [0-9.]+ s; it has [23]") as caught:
        dispatcher.announce(ClientQueue("b"), 5.0, 5, caller)
    assert int(caught.value.headers["Retry-After"]) > 1
    assert 0 <= time.monotonic() - dispatcher.refused_at < 10
    with pytest.raises(Overloaded, match=r"it has 0\.0 s"):
        dispatcher.announce(ClientQueue("b"), 5.0, 5, make_call(-1))


def test_a_row_that_was_ended_is_passed_over():
    dispatcher = make(batch_size=2)
    *with_model, gone, last = join(dispatcher, 6)
    assert sent(with_model) == 4
    gone.end(Overloaded("gone"))
    dispatcher.finish(with_model[0], 0.1, is_answered=True)
    assert (gone.is_sent, last.is_sent) == (False, True)
    # The place of a row that was sent is free again, too.
    for row in (gone, with_model[1]):
        row.end(Overloaded("gone"))
        with pytest.raises(Overloaded, match="gone"):
            dispatcher.wait(row)
    assert sent(join(dispatcher, 1)) == 1


def test_a_row_that_nobody_answers_in_time_is_not_sent():
    dispatcher = make(batch_size=2)
    *with_model, last = join(dispatcher, 5)
    last.deadline = -math.inf
    with pytest.raises(
        DeadlineExceeded, match="before the unresponsive model answered"
    ):
        dispatcher.wait(last)
    dispatcher.finish(with_model[0], 0.1, is_answered=True)
    assert not last.is_sent


@pytest.mark.parametrize(
    ("is_answered", "problem"),
    [
        pytest.param(False, DeadlineExceeded, id="the model answers nobody"),
        pytest.param(True, Overloaded, id="the model answers others"),
    ],
)
@pytest.mark.parametrize("left_s", [-1.0, 0.5])
def test_a_late_row_is_overload_because_of_others(
    is_answered, problem, left_s, monkeypatch
):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    dispatcher = make(batch_size=2)
    (first,) = join(dispatcher, 1)
    dispatcher.finish(first, 0.01, is_answered=True)
    *with_model, last = join(dispatcher, 5)
    last.deadline = now + 10 + left_s
    now += 10
    for row in with_model[:3]:
        dispatcher.finish(row, 10, is_answered=is_answered)
    assert not last.is_sent
    with pytest.raises(problem):
        dispatcher.wait(last)


def test_rows_that_are_given_up_leave_the_queue():
    dispatcher = make(batch_size=2)
    join(dispatcher, 4)
    for row in join(dispatcher, 800):
        row.end(Overloaded("gone"))
        with pytest.raises(Overloaded, match="gone"):
            dispatcher.wait(row)
    assert len(dispatcher._queue) <= 2 * 8


def test_the_time_of_a_model_that_is_busy_is_known_when_the_busy_process_ends(tmp_path):
    other = SharedCounters(tmp_path / "counters").open("ko")
    dispatcher = make(tmp_path / "counters")
    other.publish(ModelLoad(sent_rows=1, sent=1.0, heard_at=time.monotonic()))
    join(dispatcher, 1)
    other.publish(ModelLoad())
    dispatcher.check(ClientQueue("b"), 1.0, 1, make_call(30))


def test_looking_for_a_refusal_uses_up_no_try():
    dispatcher, rows = make(), (CLIENT, 1.0, 1)
    (row,) = join(dispatcher, 1)
    dispatcher.finish(row, 10.0, is_answered=True)
    dispatcher.withdraw(*rows)
    assert all(dispatcher.check(*rows, make_call(1)) for _ in range(2))
    dispatcher.announce(*rows, make_call(1))
    dispatcher.withdraw(*rows)
    with pytest.raises(Overloaded):
        dispatcher.announce(*rows, make_call(1))
