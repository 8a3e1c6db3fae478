"""The lessons from rows that come back."""

from __future__ import annotations

import pytest

from gateway.admission.latency import LatencyEstimator

NOW = 1000.0
#: A model that was idle once, when a row took 0.1 s.
FIRST = LatencyEstimator().learn(1, 0.1, NOW, was_idle=True)


def learn(*rows: tuple[int, float, float]) -> LatencyEstimator:
    """After these rows: how many, their work, and the seconds of each."""
    latency = FIRST
    for count, cost, seconds in rows:
        for _ in range(count):
            latency = latency.learn(cost, seconds, NOW)
    return latency


def test_nothing_is_known_at_first():
    latency = LatencyEstimator()
    assert (latency.forecast(1000, 100, NOW), latency.fit(1)) == (0, float("inf"))


def test_a_row_that_finds_the_model_idle_says_where_the_line_begins():
    latency = learn((200, 100, 1.1))
    assert latency.expect(0) == pytest.approx(0.1)
    assert latency.expect(100) == pytest.approx(1.1, rel=0.02)
    assert latency.fit(0.6) == pytest.approx(50, rel=0.02)


def test_many_windows_take_as_many_times_as_long_as_one():
    latency = learn((500, 100, 1.1))
    assert latency.forecast(1000, 100, NOW) == pytest.approx(11, rel=0.05)


def test_a_batch_shows_that_the_model_has_become_slower():
    assert learn((200, 100, 1.1), (64, 100, 10)).expect(100) > 9


def test_a_few_rows_of_a_small_batch_say_little_of_full_windows():
    few = [(1, float(cost), 0.4) for cost in range(2, 10)]
    assert learn(*few).expect(100) > 4
    assert learn(*few).forecast(1000, 100, NOW) < 5
    more = learn(*few, (64, 100, 0.4))
    assert more.forecast(1000, 100, NOW) == pytest.approx(4, rel=0.1)


def test_what_spreads_is_forecast_with_care():
    steady, unsteady = (
        learn(*[(1, 100, 1 + spread), (1, 100, 1 - spread)] * 250)
        for spread in (0.0, 0.5)
    )
    more_s = unsteady.forecast(100, 100, NOW) - steady.forecast(100, 100, NOW)
    assert more_s > 0.5


def test_rows_that_come_too_late_make_the_next_forecast_longer():
    usual = learn(*[(1, 100, 1.5), (1, 100, 0.5)] * 250)
    late, soon = usual, usual
    for _ in range(100):
        late, soon = late.judge(is_late=True), soon.judge(is_late=False)
    assert late.forecast(100, 100, NOW) > usual.forecast(100, 100, NOW) + 0.5
    assert soon.forecast(100, 100, NOW) == usual.forecast(100, 100, NOW)


def test_what_was_learned_fades():
    latency = LatencyEstimator().learn(1, 4.0, NOW, was_idle=True)
    assert latency.forecast(1, 1, NOW + 60) == pytest.approx(1.0, rel=0.01)


def test_one_slow_row_is_forgotten_though_the_model_is_never_idle_again():
    latency = LatencyEstimator().learn(1, 3.0, NOW, was_idle=True)
    for _ in range(300):
        latency = latency.learn(100, 0.2, NOW)
    assert latency.expect(100) == pytest.approx(0.2, rel=0.02)
    assert latency.fit(0.5) > 100
