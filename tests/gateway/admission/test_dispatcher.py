"""How much of what it could do a model does in time, and who gets it, whatever is asked.

The figures are those of the simulation; `python -m benchmarks overload` measures the stack.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import catalog
from contract.tasks import TRANSLATION
from gateway.admission.dispatcher import ModelDispatcher, PendingRow
from gateway.admission.queue import ClientQueue
from gateway.admission.shared_counters import ModelLoad, SharedCounters
from gateway.backends.backend import Capacity
from gateway.errors import DeadlineExceeded, Overloaded
from tests.gateway.admission.simulation import Simulation, Speed
from tests.gateway.callers import make_caller

#: The phrasebook on two cores, with TorchServe's window as it ships and as tuned.
PHRASEBOOK, TUNED = Speed(0.01, 0.0033), Speed(0.01, 0.0033, delay_s=0.005)
#: A model of M2M100-418M's size.
LARGE = Speed(0.3, 0.07)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "limit_s", "least", "runs"),
    [
        pytest.param(PHRASEBOOK, 30, 0.95, 1, id="phrasebook, 30 s"),
        # A row waits for two windows and two batches, which together are longer.
        pytest.param(
            *(PHRASEBOOK, 0.5, 0.5, 1),
            id="phrasebook, 500 ms",
            marks=pytest.mark.faults,
        ),
        pytest.param(TUNED, 0.5, 0.9, 1, id="phrasebook, 500 ms, short window"),
        # Two hundred rows are so few that chance decides a run.
        pytest.param(*(LARGE, 30, 0.9, 10), id="large, 30 s", marks=pytest.mark.faults),
        pytest.param(LARGE, 2, 0.5, 10, id="large, 2 s"),
    ],
)
def test_no_load_keeps_the_model_from_answering_in_time(
    speed: Speed,
    limit_s: float,
    least: float,
    runs: int,
    monkeypatch: pytest.MonkeyPatch,
):
    simulations = [Simulation(speed, seed=seed) for seed in range(1, runs + 1)]
    seconds = 15 if speed is LARGE else 5
    for times in (0.9, 2, 10):
        outcomes = []
        for simulation in simulations:
            rate = times * speed.capacity
            outcomes.append(simulation.offer(rate, seconds, limit_s))
            simulation.run(monkeypatch)
        answered = sum(outcome.answered for outcome in outcomes)
        late = sum(outcome.late for outcome in outcomes)
        expected = min(1.0, least / 0.9) * 0.9 if times < 1 else least
        assert answered / (runs * seconds) >= expected * 0.95 * speed.capacity
        assert late <= 0.05 * (answered + late)


def test_eight_replicas_do_eight_times_the_work_of_one(monkeypatch: pytest.MonkeyPatch):
    simulation = Simulation(LARGE, replicas=8)
    capacity, seconds = 8 * LARGE.capacity, 8
    for times in (0.9, 3):
        outcome = simulation.offer(times * capacity, seconds, 30)
        simulation.run(monkeypatch)
        assert outcome.answered / seconds >= 0.9 * min(1.0, times) * 0.95 * capacity
        assert outcome.late <= 0.05 * (outcome.answered + outcome.late)


@pytest.mark.parametrize("rate", [500, 1000])
def test_a_burst_that_a_new_gateway_can_answer_in_time_is_answered(
    rate: float, monkeypatch: pytest.MonkeyPatch
):
    simulation = Simulation(TUNED)
    simulation.offer(2, 5, 30, client="before")
    simulation.run(monkeypatch)
    # The first batches have few rows and take longer than full ones do later.
    simulation.speed = replace(TUNED, batch_s=0.5)
    simulation.change(TUNED, after_s=1)
    outcome = simulation.offer(rate, 1000 / rate, 30)
    simulation.run(monkeypatch)
    assert outcome.answered > 900
    assert outcome.refused + outcome.given_up + outcome.late == 0


@pytest.mark.parametrize(
    ("speed", "limit_s", "times"),
    [
        pytest.param(PHRASEBOOK, 2, 10, id="phrasebook, 2 s"),
        pytest.param(LARGE, 30, 2, id="large, 30 s"),
    ],
)
def test_a_new_gateway_refuses_early_what_cannot_be_answered_in_time(
    speed: Speed, limit_s: float, times: float, monkeypatch: pytest.MonkeyPatch
):
    simulation = Simulation(speed)
    seconds = 2 * limit_s
    outcome = simulation.offer(times * speed.capacity, seconds, limit_s)
    simulation.run(monkeypatch)
    asked = times * speed.capacity * seconds
    assert outcome.answered >= seconds * speed.capacity
    assert outcome.late <= 0.01 * asked
    assert outcome.given_up <= 0.06 * asked


def test_after_the_load_has_gone_everything_is_answered_again(
    monkeypatch: pytest.MonkeyPatch,
):
    simulation = Simulation(LARGE)
    simulation.offer(10 * LARGE.capacity, 30, 2)
    simulation.run(monkeypatch)
    outcome = simulation.offer(0.3 * LARGE.capacity, 60, 2)
    simulation.run(monkeypatch)
    assert outcome.refused + outcome.given_up + outcome.late <= 0.1 * outcome.answered


@pytest.mark.slow
def test_a_client_that_asks_too_much_does_not_take_the_others_share(
    monkeypatch: pytest.MonkeyPatch,
):
    simulation = Simulation(PHRASEBOOK)
    greedy = simulation.offer(10 * PHRASEBOOK.capacity, 5, 5, client="greedy")
    modest = simulation.offer(0.2 * PHRASEBOOK.capacity, 5, 5, client="modest")
    simulation.run(monkeypatch)
    asked = modest.answered + modest.refused + modest.given_up + modest.late
    assert modest.answered >= 0.98 * asked
    assert greedy.refused > greedy.answered


@pytest.mark.slow
def test_clients_of_one_request_each_are_together_no_more_than_the_model_can_do(
    monkeypatch: pytest.MonkeyPatch,
):
    simulation = Simulation(PHRASEBOOK)
    outcomes = [
        simulation.offer(PHRASEBOOK.capacity / 50, 8, 2, client=str(number))
        for number in range(200)
    ]
    simulation.run(monkeypatch)
    answered = sum(outcome.answered for outcome in outcomes)
    given_up = sum(outcome.given_up + outcome.late for outcome in outcomes)
    assert answered >= 0.9 * 8 * PHRASEBOOK.capacity
    assert given_up <= 0.02 * sum(outcome.refused for outcome in outcomes)


def make_model(**settings: int) -> catalog.Model:
    section = catalog.TranslationSection(**settings)  # type: ignore[arg-type]
    return catalog.Model("ko", TRANSLATION, ("ko",), ("cpu",), section)


def make_lane(**settings: int) -> ModelDispatcher:
    model = make_model(**settings)
    return ModelDispatcher(
        model, SharedCounters().open("ko"), lambda: Capacity(model.workers)
    )


def join(
    lane: ModelDispatcher, count: int, *, size: int = 1, client: str = "a"
) -> list[PendingRow]:
    caller = make_caller(address=client)
    lane.announce(ClientQueue(client), float(count), count, caller)
    turns = [PendingRow(1.0, size, caller.deadline) for _ in range(count)]
    for turn in turns:
        lane.join(ClientQueue(client), turn)
    return turns


def sent(turns: list[PendingRow]) -> int:
    return sum(turn.is_sent for turn in turns)


def test_the_model_has_one_batch_and_the_next():
    lane = make_lane(batch_size=8)
    turns = join(lane, 40)
    assert sent(turns) == 16
    lane.finish(turns[0], 0.1, is_answered=True)
    assert sent(turns) == 17


def test_the_model_has_a_bounded_number_of_bytes():
    turns = join(make_lane(), 40, size=8 << 20)
    assert sent(turns) == 8


def test_a_model_with_more_room_has_more_rows_and_bytes():
    room = Capacity(1)
    model = make_model(batch_size=8)
    lane = ModelDispatcher(model, SharedCounters().open("ko"), lambda: room)
    turns = join(lane, 100, size=8 << 20)
    assert sent(turns) == 8
    room = Capacity(4, 4 * Capacity.most_bytes)
    lane.finish(turns[0], 0.1, is_answered=True)
    assert sent(turns) == 1 + 32
    room = Capacity(4, 400 * Capacity.most_bytes)
    lane.finish(turns[1], 0.1, is_answered=True)
    assert sent(turns) == 2 + 64


def make_slow_lane() -> ModelDispatcher:
    """The dispatcher of a model that takes 4.2 s for a batch and 0.3 s for a row."""
    lane = make_lane(batch_size=64)
    lane.pace.learn(120.0, 0.3)
    for _ in range(300):
        lane.pace.learn(64 * 120.0, 4.2)
    return lane


def count_at_once(lane: ModelDispatcher) -> float:
    """The rows of 120 characters that the model gets at once."""
    return min(lane._most_rows, lane._most_cost() / 120.0)


def test_a_callers_time_limit_takes_nothing_from_others():
    lane = make_slow_lane()
    assert count_at_once(lane) == 128
    for limit_s in (0.001, 2, 0.5, 30):
        with suppress(Overloaded):
            lane.announce(ClientQueue("hasty"), 120.0, 1, make_caller(limit_s))
        lane.announce(ClientQueue("usual"), 600.0, 5, make_caller(30))
        assert count_at_once(lane) == 128
    for _ in range(100):
        with pytest.raises(Overloaded):
            lane.announce(ClientQueue("hasty"), 120.0, 1, make_caller(0.001))
    assert count_at_once(lane) == 128


def test_where_all_have_short_limits_the_work_in_hand_is_short():
    lane = make_slow_lane()
    for _ in range(30):
        lane.announce(ClientQueue("hasty"), 120.0, 1, make_caller(2))
        lane.withdraw(ClientQueue("hasty"), 120.0, 1)
    assert count_at_once(lane) < 16


def test_a_row_that_is_larger_than_that_goes_alone():
    turns = join(make_lane(), 2, size=100 << 20)
    assert sent(turns) == 1


def test_a_full_queue_says_how_long_it_takes():
    lane = make_lane(queue_size=100)
    turns = join(lane, 200)
    for turn in turns[:128]:
        lane.finish(turn, 0.5, is_answered=True)
    with pytest.raises(Overloaded, match="200 rows wait already") as caught:
        join(lane, 1)
    assert int(caught.value.headers["Retry-After"]) >= 1


def test_what_has_no_time_is_refused_with_the_time_that_it_would_take():
    lane = make_lane(batch_size=1)
    turns = join(lane, 10)
    for turn in turns[:6]:
        lane.finish(turn, 2.0, is_answered=True)
    caller = make_caller(3)
    with pytest.raises(Overloaded, match="take about [0-9.]+ s, it has [23]") as caught:
        lane.announce(ClientQueue("b"), 5.0, 5, caller)
    assert int(caught.value.headers["Retry-After"]) > 1


def test_a_turn_that_was_ended_is_passed_over():
    lane = make_lane(batch_size=2)
    *with_model, gone, last = join(lane, 6)
    assert sent(with_model) == 4
    gone.end(Overloaded("gone"))
    lane.finish(with_model[0], 0.1, is_answered=True)
    assert (gone.is_sent, last.is_sent) == (False, True)
    with pytest.raises(Overloaded, match="gone"):
        lane.wait(gone)


def test_whoever_is_ended_after_being_called_gives_the_place_back():
    lane = make_lane(batch_size=2)
    first, *_, last = join(lane, 5)
    first.end(Overloaded("gone"))
    with pytest.raises(Overloaded, match="gone"):
        lane.wait(first)
    assert last.is_sent


def test_a_row_that_waits_in_vain_is_not_sent():
    lane = make_lane(batch_size=2)
    *with_model, last = join(lane, 5)
    last.deadline = -math.inf
    with pytest.raises(DeadlineExceeded, match="while the model is silent"):
        lane.wait(last)  # the model is silent
    lane.finish(with_model[0], 0.1, is_answered=True)
    assert not last.is_sent


@pytest.mark.parametrize(
    ("is_answered", "problem"),
    [
        pytest.param(False, DeadlineExceeded, id="the model answers nobody"),
        pytest.param(True, Overloaded, id="the model answers others"),
    ],
)
@pytest.mark.parametrize("left_s", [-1.0, 0.5])
def test_a_row_without_enough_time_is_refused_only_because_of_others(
    is_answered: bool,
    problem: type[Exception],
    left_s: float,
    monkeypatch: pytest.MonkeyPatch,
):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lane = make_lane(batch_size=2)
    (first,) = join(lane, 1)
    lane.finish(first, 0.01, is_answered=True)
    *with_model, last = join(lane, 5)
    last.deadline = now + 10 + left_s
    now += 10
    for turn in with_model[:3]:
        lane.finish(turn, 10, is_answered=is_answered)
    assert not last.is_sent
    with pytest.raises(problem):
        lane.wait(last)


def test_rows_that_are_given_up_leave_the_queue():
    lane = make_lane(batch_size=2)
    join(lane, 4)
    for _ in range(100):
        turns = join(lane, 8)
        for turn in turns:
            turn.end(Overloaded("gone"))
            with pytest.raises(Overloaded, match="gone"):
                lane.wait(turn)
        lane.withdraw(ClientQueue("a"), 8.0, 8)
    assert len(lane._queue) <= 2 * 8


def test_what_was_announced_and_withdrawn_leaves_nothing():
    lane = make_lane()
    for client in ("a", "b") * 50:
        lane.announce(ClientQueue(client), 0.1, 3, make_caller(address=client))
    for client in ("b", "a") * 50:
        lane.withdraw(ClientQueue(client), 0.1, 3)
        lane.withdraw(ClientQueue(client), 0.0, 0)
    load, processes = lane._board.read()
    assert (load.waiting_rows, load.waiting, processes, lane._weights) == (0, 0, 0, 0)
    assert not lane._shares


def test_the_time_of_a_model_that_is_busy_is_known_when_the_busy_process_ends(
    tmp_path: Path,
):
    model = catalog.Model(
        "ko", TRANSLATION, ("ko",), ("cpu",), catalog.TranslationSection()
    )
    other = SharedCounters(tmp_path / "board").open("ko")
    lane = ModelDispatcher(
        model,
        SharedCounters(tmp_path / "board").open("ko"),
        lambda: Capacity(model.workers),
    )
    other.tell(ModelLoad(sent_rows=1, sent=1.0, heard_at=time.monotonic()))
    join(lane, 1)
    other.tell(ModelLoad())
    lane.check(ClientQueue("b"), 1.0, 1, make_caller(30))


def test_what_comes_too_late_to_be_answered_is_not_even_tried():
    lane = make_lane()
    (turn,) = join(lane, 1)
    lane.finish(turn, 1.0, is_answered=True)
    lane.withdraw(ClientQueue("a"), 1.0, 1)
    with pytest.raises(Overloaded, match=r"it has 0\.0 s"):
        lane.announce(ClientQueue("a"), 1.0, 1, make_caller(-1))
