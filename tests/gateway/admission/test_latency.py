"""What is learned from rows that come back."""

from __future__ import annotations

import time

import pytest

from gateway.admission.latency import LatencyEstimator


def learn(pace: LatencyEstimator, rows: int, cost: float, seconds: float) -> None:
    for _ in range(rows):
        pace.learn(cost, seconds)


def test_nothing_is_known_at_first():
    pace = LatencyEstimator()
    assert (pace.forecast(1000, 100), pace.fit(1)) == (0, float("inf"))


def test_a_row_that_finds_the_model_idle_says_where_the_line_begins():
    pace = LatencyEstimator()
    pace.learn(1, 0.1, was_idle=True)
    learn(pace, 200, 100, 1.1)
    assert pace.expect(0) == pytest.approx(0.1)
    assert pace.expect(100) == pytest.approx(1.1, rel=0.02)
    assert pace.fit(0.6) == pytest.approx(50, rel=0.02)


def test_many_windows_take_as_many_times_as_long_as_one():
    pace = LatencyEstimator()
    pace.learn(1, 0.1, was_idle=True)
    learn(pace, 500, 100, 1.1)
    assert pace.forecast(1000, 100) == pytest.approx(11, rel=0.05)


def test_a_batch_shows_that_the_model_has_become_slower():
    pace = LatencyEstimator()
    pace.learn(1, 0.1, was_idle=True)
    learn(pace, 200, 100, 1.1)
    learn(pace, 64, 100, 10)
    assert pace.expect(100) > 9


def test_a_few_rows_of_a_small_batch_say_little_of_full_windows():
    pace = LatencyEstimator()
    pace.learn(1, 0.1, was_idle=True)
    for cost in range(2, 10):
        pace.learn(cost, 0.4)
    assert pace.expect(100) > 4
    assert pace.forecast(1000, 100) < 5
    learn(pace, 64, 100, 0.4)
    assert pace.forecast(1000, 100) == pytest.approx(4, rel=0.1)


def test_what_spreads_is_forecast_with_care():
    steady, unsteady = LatencyEstimator(), LatencyEstimator()
    for pace, spread in ((steady, 0.0), (unsteady, 0.5)):
        pace.learn(1, 0.1, was_idle=True)
        for i in range(500):
            pace.learn(100, 1 + spread * (-1) ** i)
    assert unsteady.forecast(100, 100) > steady.forecast(100, 100) + spread


def test_what_was_learned_fades(monkeypatch: pytest.MonkeyPatch):
    pace = LatencyEstimator()
    pace.learn(1, 4.0, was_idle=True)
    learned_at = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: learned_at + 60)
    assert pace.forecast(1, 1) == pytest.approx(1.0, rel=0.01)


def test_one_slow_row_is_forgotten_though_the_model_is_never_idle_again():
    pace = LatencyEstimator()
    pace.learn(1, 3.0, was_idle=True)
    learn(pace, 300, 100, 0.2)
    assert pace.expect(100) == pytest.approx(0.2, rel=0.02)
    assert pace.fit(0.5) > 100
