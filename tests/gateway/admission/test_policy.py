"""Sending and refusing rows by a model's state at one moment, and estimates from answers."""

import math
from typing import Any

import pytest

from gateway.admission import policy
from gateway.admission.policy import LatencyEstimator, Snapshot, Window
from gateway.admission.queue import AnnouncedWork, ClientQueue
from gateway.admission.shared_counters import ModelLoad
from gateway.backends.backend import Capacity

NOW = 1000.0
#: A model that takes 0.3 s for a row of 120 characters and 4.2 s for 64 of them.
SLOW = LatencyEstimator(
    idle_s=0.3, excess_s=3.9, work=64 * 120.0, weight=1, learned_at=NOW
)
WINDOW = Window(rows=16, cost=160.0, size=1000)
#: A number of sent rows, and their work.
Sent = tuple[float, float]


def see(
    own: Sent = (0, 0), load: Sent = (0, 0), processes: int = 1, **more: float
) -> Snapshot:
    """A snapshot in which this process has sent `own`, and all processes have sent `load`."""
    all_sent = ModelLoad(*load, heard_at=NOW)._replace(**more)
    return Snapshot(NOW, ModelLoad(*own), all_sent, processes, WINDOW, SLOW)


#: A model that does 1,000 units of work per second.
STEADY = LatencyEstimator(excess_s=1, work=1000, weight=1, learned_at=NOW)


@pytest.mark.parametrize(
    ("changes", "rows", "cost"),
    [
        pytest.param({}, 128, 30_000, id="one batch and the next"),
        pytest.param({"capacity": Capacity(8)}, 1024, 30_000, id="of each worker"),
        pytest.param({"batch_size": 1}, 4, 30_000, id="at least a few rows"),
        pytest.param({"limit_s": 8}, 128, 4000, id="half of the average time limit"),
        pytest.param({"limit_s": 0.1}, 128, 500, id="half a second at least"),
        pytest.param(
            {"response_timeout_s": 16}, 128, 4000, id="a quarter of a batch's"
        ),
        pytest.param({"mean_cost": 40_000}, 128, 40_000, id="one row at least"),
        pytest.param({"latency": LatencyEstimator()}, 128, math.inf, id="unknown"),
    ],
)
def test_a_model_gets_what_it_can_use(changes: dict[str, Any], rows: int, cost: float):
    given: dict[str, Any] = {"capacity": Capacity(1), "latency": STEADY, "limit_s": 60}
    given |= {"batch_size": 64, "response_timeout_s": 120, "mean_cost": 120}
    window = policy.open_window(**(given | changes))
    assert window == Window(rows, cost, Capacity.most_bytes)


def test_the_average_time_limit_follows_admitted_rows():
    first = policy.start_limit(120)
    assert first == 60
    assert policy.follow_limit(first, 10, rows=1) == pytest.approx(50)
    many = policy.follow_limit(first, 10, rows=5)
    one_by_one = first
    for _ in range(5):
        one_by_one = policy.follow_limit(one_by_one, 10, rows=1)
    assert many == pytest.approx(one_by_one)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(see(load=(99, 999), sent_bytes=991), True, id="we have sent none"),
        pytest.param(see((16, 16), (16, 16)), False, id="no row more"),
        pytest.param(see((2, 151), (2, 151)), False, id="too much work"),
        pytest.param(see((1, 1), (1, 1), sent_bytes=991), False, id="too many bytes"),
        pytest.param(see((7, 70), (99, 999), processes=2), True, id="our half"),
        pytest.param(see((8, 80), (16, 160), processes=2), False, id="others' half"),
        pytest.param(
            see((8, 80), (8, 80), processes=2), True, id="others leave theirs"
        ),
    ],
)
def test_a_row_is_sent_where_the_model_has_capacity(seen: Snapshot, expected: bool):
    assert policy.has_capacity(seen, cost=10.0, size=10) is expected


def busy_for(begun_s: float) -> Snapshot:
    """A snapshot of the slow model, `begun_s` after it began work that takes two seconds."""
    return see(load=(8.0, SLOW.fit(2.0)), heard_at=NOW - begun_s)


@pytest.mark.parametrize(
    ("seen", "begun_s"),
    [
        pytest.param(see(), 0.0, id="idle"),
        pytest.param(busy_for(1.5), 1.5, id="busy"),
        pytest.param(busy_for(3.0), -1.0, id="overdue"),
    ],
)
def test_work_that_has_begun_counts_less(seen: Snapshot, begun_s: float):
    assert seen.begun_s == pytest.approx(begun_s)
    forecast_s = SLOW.forecast(seen.load.sent + 120.0, 160.0, NOW)
    assert policy.forecast(seen, 120.0, 10.0) == pytest.approx(forecast_s - begun_s)


@pytest.mark.parametrize(
    ("seen", "left_s", "expected"),
    [
        pytest.param(see(), 0.01, False, id="an idle model may try"),
        pytest.param(see(), -0.01, True, id="its deadline has passed"),
        pytest.param(busy_for(1.5), 0.6, False, id="the rest of the work fits"),
        pytest.param(busy_for(1.5), 0.4, True, id="the rest of the work does not fit"),
    ],
)
def test_a_row_that_would_come_too_late_is_not_sent(seen, left_s, expected):
    assert policy.is_too_late(seen, 0.0, NOW + left_s) is expected


@pytest.mark.parametrize(
    ("seen", "rows", "left_s", "tried_s", "expected"),
    [
        pytest.param(see(), 1, 1.0, 0, True, id="an idle model"),
        pytest.param(see(load=(1, 1)), 1, 1.0, 0, False, id="a busy model"),
        pytest.param(see(), 17, 1.0, 0, False, id="more rows than it gets at once"),
        pytest.param(see(), 1, 0.0, 0, False, id="the deadline has passed"),
        pytest.param(see(), 1, 0.2, 0, False, id="too slow even for one, just now"),
        pytest.param(see(), 1, 0.2, 1, True, id="too slow, now and then"),
    ],
)
def test_a_late_request_may_test_how_fast_an_idle_model_is(
    seen, rows, left_s, tried_s, expected
):
    assert policy.may_try(seen, rows, left_s, NOW - tried_s) is expected


A, BULK_A = ClientQueue("a"), ClientQueue("a", is_bulk=True)
B, BULK_B = ClientQueue("b"), ClientQueue("b", is_bulk=True)


@pytest.mark.parametrize(
    ("announced", "client", "turns"),
    [
        pytest.param({}, A, 10, id="alone"),
        pytest.param({A: 30}, A, 40, id="after its own"),
        pytest.param({B: 900}, A, 20, id="half of two"),
        pytest.param({BULK_B: 900}, A, 12.5, id="before bulk"),
        pytest.param({B: 900}, BULK_A, 50, id="as bulk"),
    ],
)
def test_every_other_client_gets_its_share_meanwhile(announced, client, turns):
    work = AnnouncedWork()
    for other, cost in announced.items():
        work.add(other, cost, 3)
    assert work.count_turns(client, 10) == pytest.approx(turns)


def test_what_was_announced_and_taken_back_leaves_nothing():
    work = AnnouncedWork()
    for client in [A, BULK_B] * 50:
        work.add(client, 0.1, 3)
    for client in [BULK_B, A] * 50:
        work.remove(client, 0.1, 3)
        work.remove(client, 0.0, 0)
    assert (work.cost, work.rows) == (0, 0)
    assert work.count_turns(BULK_B, 1.0) == 1.0


#: A model that took 0.1 s for its first row, when it was idle.
FIRST = LatencyEstimator().learn(1, 0.1, NOW, was_idle=True)


def learn(*rows: tuple[int, float, float]) -> LatencyEstimator:
    """Return an estimator that has learned from rows, given as (count, work, seconds)."""
    latency = FIRST
    for count, cost, seconds in rows:
        for _ in range(count):
            latency = latency.learn(cost, seconds, NOW)
    return latency


def test_a_row_that_finds_the_model_idle_says_where_the_line_begins():
    latency = learn((200, 100, 1.1))
    assert latency.expect(0) == pytest.approx(0.1)
    assert latency.expect(100) == pytest.approx(1.1, rel=0.02)
    assert latency.fit(0.6) == pytest.approx(50, rel=0.02)


def test_a_batch_shows_that_the_model_has_become_slower():
    assert learn((200, 100, 1.1), (64, 100, 10)).expect(100) > 9


def test_a_few_rows_of_a_small_batch_say_little_of_full_windows():
    few = [(1, float(cost), 0.4) for cost in range(2, 10)]
    assert learn(*few).expect(100) > 4
    assert learn(*few).forecast(1000, 100, NOW) < 5
    more = learn(*few, (64, 100, 0.4))
    assert more.forecast(1000, 100, NOW) == pytest.approx(4, rel=0.1)


UNSTEADY = learn(*[(1, 100, 1.5), (1, 100, 0.5)] * 250)


def test_what_spreads_is_forecast_with_care():
    steady = learn((500, 100, 1.0))
    more_s = UNSTEADY.forecast(100, 100, NOW) - steady.forecast(100, 100, NOW)
    assert more_s > 0.5


def test_rows_that_come_too_late_make_the_next_forecast_longer():
    late = soon = UNSTEADY
    for _ in range(100):
        late, soon = late.judge(is_late=True), soon.judge(is_late=False)
    usual_s = UNSTEADY.forecast(100, 100, NOW)
    assert late.forecast(100, 100, NOW) > usual_s + 0.5
    assert soon.forecast(100, 100, NOW) == usual_s


def test_what_was_learned_fades():
    latency = LatencyEstimator().learn(1, 4.0, NOW, was_idle=True)
    assert latency.forecast(1, 1, NOW + 60) == pytest.approx(1.0, rel=0.01)


def test_one_slow_row_is_forgotten_though_the_model_is_never_idle_again():
    latency = LatencyEstimator().learn(1, 3.0, NOW, was_idle=True)
    for _ in range(300):
        latency = latency.learn(100, 0.2, NOW)
    assert latency.expect(100) == pytest.approx(0.2, rel=0.02)
    assert latency.fit(0.5) > 100


def test_rows_sent_while_the_model_was_overdue_make_no_forecast_negative():
    assert learn((300, 100, -2.0)).forecast(1, 100, NOW) >= 0
