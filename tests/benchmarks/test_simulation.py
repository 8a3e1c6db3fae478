"""The simulation agrees with queueing theory and loses no rows; a day consists of moments, each
with some of the replicas. Scenarios are checked."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import simulation
from benchmarks.driver import load_plan
from benchmarks.simulation import HOUR_S, Scenario, TrafficEntry, change
from deploy.stack import ROOT

LONG = {"seconds": 200, "settle_s": 20}
ROW_BY_ROW: dict[str, Any] = {"ms": {1: 10}, "batch_size": 1, "max_batch_delay": 0}
#: A batch takes 10 ms, plus 1 ms per row.
BATCHES = {"ms": {1: 11, 2: 12}, "batch_size": 32}
#: A gateway that takes longer for a request than the model.
GATEWAY = {"gateways": {"request_ms": 2}, "replica": {"ms": {1: 0.001}}}
#: For a day: a batch takes 100 ms, plus 10 ms per row.
REPLICA = {"ms": {1: 110, 2: 120}, "batch_size": 16, "max_batch_delay": 50}
DAY = {"moments": 4, "seconds": 10, "settle_s": 2, "target_ongoing_requests": 15}


def make(**parts: Any) -> Scenario:
    """Make a scenario from these parts; by default, one replica runs single rows of 10 ms."""
    replica = {**ROW_BY_ROW, "queue_size": 100_000, **parts.pop("replica", {})}
    stretch = {"seconds": 20, "settle_s": 2}
    return Scenario.model_validate({"replica": replica, "stretch": stretch, **parts})


def simulate(**parts: Any) -> simulation.LanguageOutcome:
    return simulation.run(make(**parts), 1)[0]


def wait_ms(outcome: simulation.LanguageOutcome, service_ms: float) -> float:
    assert outcome.latencies.mean_ms
    return outcome.latencies.mean_ms - service_ms


@pytest.mark.parametrize(
    ("traffic", "parts", "service_ms", "wait"),
    [
        ({"requests_per_s": 60}, {}, 10, 10 * 0.6 / 0.8),
        ({"requests_per_s": 60, "tokens_spread": 1.0}, {}, 10, 10 * 0.6 / 0.8 * 2),
        ({"requests_per_s": 400}, GATEWAY, 2, 2 * 0.8 / 0.4),
    ],
    ids=["a row at a time", "lengths that differ", "a gateway's process"],
)
def test_a_queue_waits_as_pollaczek_and_khinchine_found(
    traffic, parts, service_ms, wait
):
    outcome = simulate(stretch=LONG, traffic=traffic, **parts)
    assert wait_ms(outcome, service_ms) == pytest.approx(wait, rel=0.1)


def test_a_lone_request_waits_for_the_window_and_its_row():
    replica = {**BATCHES, "max_batch_delay": 5}
    outcome = simulate(traffic={"requests_per_s": 0.5}, replica=replica)
    assert outcome.latencies.p50_ms == pytest.approx(16)


def test_a_batch_has_what_comes_in_its_window():
    # The first row opens the window, and others arrive at random.
    replica = {"ms": {1: 0.001}, "batch_size": 100_000, "max_batch_delay": 100}
    outcome = simulate(traffic={"requests_per_s": 50}, replica=replica, stretch=LONG)
    assert outcome.batch_fill == pytest.approx(1 + 50 * 0.1, rel=0.02)


def test_replicas_share_their_load():
    def wait(replicas: int, **gateways: Any) -> float:
        traffic = {"requests_per_s": 80 * replicas}
        outcome = simulate(traffic=traffic, gateways=gateways, replicas=replicas)
        return wait_ms(outcome, 10)

    least = wait(8)
    assert least < 0.6 * wait(1)
    # Ingresses choose replicas less well, as each sees only its own requests.
    assert least < wait(8, ingresses=8)


@pytest.mark.parametrize("size", [5, 10_000], ids=["full queue", "no time"])
def test_what_cannot_be_done_is_refused_and_the_rest_is_in_time(size):
    traffic = {"requests_per_s": 200, "timeout_s": 1}
    outcome = simulate(traffic=traffic, replica={"queue_size": size})
    assert outcome.requests_per_s == pytest.approx(100, rel=0.01)
    assert outcome.refused == pytest.approx(0.5, abs=0.02)
    assert outcome.late == 0
    assert (outcome.latencies.p99_ms or 0) <= 1000


def test_rows_that_come_too_late_are_counted():
    # The forecast uses only the mean length.
    traffic = {"requests_per_s": 80, "tokens_spread": 3, "timeout_s": 0.2}
    outcome = simulate(traffic=traffic)
    assert 0.01 < outcome.late < 0.5
    assert (outcome.latencies.p99_ms or 0) <= 200


def test_the_seed_decides_alone():
    scenario = make(traffic={"requests_per_s": 80, "tokens_spread": 0.5})
    one, again, other = (simulation.run(scenario, seed) for seed in (1, 1, 2))
    assert one == again != other


def test_alike_traffic_needs_the_same_replicas_all_day():
    day = {**DAY, "replicas": [1, 100]}
    scenario = make(traffic={"requests_per_s": 400}, replica=REPLICA, day=day)
    (outcome,) = simulation.run(scenario, 1)
    assert outcome.replicas == pytest.approx(outcome.most_replicas)
    assert outcome.requests_per_s == pytest.approx(400, rel=0.03)


def test_a_replica_may_have_only_one_request_at_a_time():
    day = {**DAY, "target_ongoing_requests": 1, "replicas": [1, 9]}
    replica = {"ms": {1: 10}, "batch_size": 64, "max_batch_delay": 100}
    for timeout_s, replicas in ((30.0, 3), (0.01, 9)):
        traffic = {"requests_per_s": 25, "timeout_s": timeout_s}
        (outcome,) = simulation.run(make(traffic=traffic, replica=replica, day=day), 1)
        assert outcome.replicas == replicas


def test_replicas_follow_the_wave_with_serves_delays():
    delays = {"upscale_delay_s": HOUR_S, "downscale_delay_s": 6 * HOUR_S}
    scenario = make(
        traffic={"requests_per_s": 2000, "wave": 0.8, "peak_hour": 12.5},
        replica={**REPLICA, "start_s": HOUR_S},
        day={**DAY, **delays, "moments": 24, "replicas": [1, 1000]},
    )
    assert scenario.day
    planner = simulation.Planner(scenario, scenario.day)
    parts = [part for hour in range(24) for part in planner.plan(hour)[1]]
    ready = [part.factor * part.replicas for part in parts]
    held = [part.held for part in parts]
    most = max(ready)
    # The replicas needed at 12:30 are ready at 14:30 and kept until 18:30.
    assert [hour for hour in range(24) if ready[hour] == most] == list(range(14, 19))
    # They are paid for from the moment they are requested.
    assert [hour for hour in range(24) if held[hour] == most] == list(range(13, 19))
    assert all(paid >= some for paid, some in zip(held, ready, strict=True))


def make_part(language: str, times: list[float], factor: float):
    part = simulation.LanguagePart(language, 1, 1, 1, factor)
    part.latencies_s.extend(times)
    return part


def test_a_requests_weight_is_what_it_stands_for():
    parts = [make_part("fr", [1, 1], 1), make_part("ja", [3], 8)]
    gpu, gateway = {"hour_price": 3.6}, {"hour_price": 0.36}
    scenario = make(traffic={"requests_per_s": 1}, replica=gpu, gateways=gateway)
    whole, french, _ = simulation.summarize(scenario, parts, 10)
    assert whole.requests_per_s == pytest.approx(1)
    assert whole.latencies.mean_ms == pytest.approx(2600)
    assert whole.latencies.p50_ms == 3000
    assert french.requests_per_s == pytest.approx(0.2)
    # A GPU costs 0.01 per 10 s, the gateway 0.001.
    assert whole.cost_per_million == pytest.approx(1e6 * (2 * 0.01 + 0.001) / 10)
    assert french.cost_per_million == pytest.approx(1e6 * (0.01 / 2 + 0.001 / 10))


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/scenarios/*.yaml")))
def test_a_scenario_that_ships_is_a_scenario(path: Path):
    assert load_plan(path, Scenario).replica.tabulate()[-1] > 0


def test_a_number_of_languages_has_zipfs_shares():
    shares = TrafficEntry(requests_per_s=1, languages=3).find_shares()
    assert list(shares.values()) == pytest.approx([6 / 11, 3 / 11, 2 / 11])


def test_traffic_makes_a_wave_in_a_day():
    traffic = TrafficEntry(requests_per_s=100, wave=0.5, peak_hour=14)
    found = [traffic.find_rate(hour * HOUR_S) for hour in (14, 2, 20, 38)]
    assert found == pytest.approx([150, 50, 100, 150])


def test_a_table_has_straight_lines_between_its_sizes_and_beyond():
    replica = {"ms": {1: 10, 8: 24}, "batch_size": 12}
    scenario = make(traffic={"requests_per_s": 1}, replica=replica)
    seconds = scenario.replica.tabulate()
    found = [seconds[rows] for rows in (0, 1, 4, 8, 12)]
    assert found == pytest.approx([0, 0.01, 0.016, 0.024, 0.032])


def test_values_can_be_changed():
    scenario = make(traffic={"requests_per_s": 10})
    texts = ["traffic.languages=3", "replicas=9", "day.replicas=[1, 2]"]
    changed = change(scenario, texts)
    assert len(changed.traffic.find_shares()) == 3
    assert changed.replicas == 9
    assert changed.day
    assert changed.replica == scenario.replica
    assert change(scenario, []) == scenario
