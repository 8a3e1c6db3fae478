"""A day is made of moments, each with a part of the replicas."""

from __future__ import annotations

import pytest

from benchmarks.simulate.cluster import Tally
from benchmarks.simulate.command import Planner, find_rate, run, summarize
from benchmarks.simulate.scenario import HOUR_S, DayEntry, Scenario
from tests.benchmarks.simulate.conftest import Make

#: A batch takes 100 ms, and 10 ms for each row.
REPLICA = {
    "service": {"fixed_ms": 100, "row_ms": 10},
    "batch_size": 16,
    "max_batch_delay": 50,
}
DAY = {"moments": 4, "seconds": 10, "settle_s": 2}
PRICE = {"gpu_hour": 3, "replica_hour": 1, "gateway_hour": 2}


def plan(scenario: Scenario) -> Planner:
    assert scenario.day
    return Planner(scenario, scenario.day)


def test_a_replica_gets_the_rate_at_which_it_has_its_requests(make: Make):
    def find(target: int, tokens: int) -> float:
        traffic = {"requests_per_s": 1, "tokens": tokens}
        scaling = {"target_ongoing_requests": target}
        return find_rate(make(traffic=traffic, replica=REPLICA, autoscaling=scaling), 2)

    few, many, shorter = find(5, 16), find(20, 16), find(20, 4)
    assert 0 < few < many < 16 / 0.26
    assert shorter > 2 * many


def test_alike_traffic_needs_the_same_replicas_all_day(make: Make):
    scenario = make(
        traffic={"requests_per_s": 400},
        replica={**REPLICA, "gpus": 0.5},
        replicas=[1, 100],
        autoscaling={"target_ongoing_requests": 15},
        gateways={"processes": 3},
        day=DAY,
        price=PRICE,
    )
    (outcome,) = run(scenario, 1)
    assert outcome.replicas == pytest.approx(outcome.most_replicas)
    assert outcome.gpu_hours == pytest.approx(outcome.most_replicas * 24 * 0.5)
    assert outcome.requests_per_s == pytest.approx(400, rel=0.03)
    hours = outcome.most_replicas * (0.5 * 3 + 1) + 3 * 2
    expected = hours / (outcome.requests_per_s * HOUR_S) * 1e6
    assert outcome.cost_per_million == pytest.approx(expected)


def test_replicas_follow_the_wave_with_serves_delays(make: Make):
    scenario = make(
        traffic={"requests_per_s": 2000, "wave": 0.8, "peak_hour": 12.5},
        replica={**REPLICA, "start_s": HOUR_S},
        replicas=[1, 1000],
        autoscaling={
            "target_ongoing_requests": 15,
            "upscale_delay_s": HOUR_S,
            "downscale_delay_s": 6 * HOUR_S,
        },
        day={**DAY, "moments": 24},
    )
    planner = plan(scenario)
    parts = [part for hour in range(24) for part in planner.plan(hour)[1]]
    ready = [part.factor * part.replicas for part in parts]
    held = [part.held for part in parts]
    most = max(ready)
    # The replicas of 12:30 have started at 14:30, and are kept until 18:30.
    assert [hour for hour in range(24) if ready[hour] == most] == list(range(14, 19))
    # They are paid for from the moment when they are wanted.
    assert [hour for hour in range(24) if held[hour] == most] == list(range(13, 19))
    assert all(paid >= some for paid, some in zip(held, ready, strict=True))


def make_tally(language: str, times: list[float], weight: float) -> Tally:
    tally = Tally(language, seconds=10, weight=weight)
    tally.latencies_s.extend(times)
    return tally


def test_a_requests_weight_is_what_it_stands_for(make: Make):
    scenario = make(traffic={"requests_per_s": 1}, day=DayEntry(moments=1))
    tallies = [make_tally("fr", [1, 1], 1), make_tally("ja", [3], 8)]
    whole, french, japanese = summarize(scenario, tallies)
    assert whole.requests_per_s == pytest.approx(1)
    assert whole.latencies.mean_ms == pytest.approx(2600)
    assert whole.latencies.p50_ms == 3000
    assert french.requests_per_s == pytest.approx(0.2)
    assert japanese.simulated == 1
