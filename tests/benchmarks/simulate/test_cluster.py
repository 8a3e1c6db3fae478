"""The simulation agrees with what queueing theory knows, and loses nothing; a day is made of
moments, each with a part of the replicas. The command compares it with what was measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app
from benchmarks.simulate import cluster
from benchmarks.simulate.scenario import HOUR_S, DayEntry, Scenario

LONG = {"seconds": 200, "settle_s": 20}
#: A batch takes 10 ms, and 1 ms for each row.
BATCHES = {"service": {"fixed_ms": 10, "row_ms": 1}, "batch_size": 32}
#: For a day: a batch takes 100 ms, and 10 ms for each row.
REPLICA = {
    "service": {"fixed_ms": 100, "row_ms": 10},
    "batch_size": 16,
    "max_batch_delay": 50,
}
DAY = {"moments": 4, "seconds": 10, "settle_s": 2}
PRICE = {"gpu_hour": 3, "replica_hour": 1, "gateway_hour": 2}


def make(**parts: Any) -> Scenario:
    """A scenario of one replica that takes 10 ms for each row, row by row, and whose parts
    are replaced by what is given."""
    replica = {
        "service": {"fixed_ms": 10, "row_ms": 0},
        "batch_size": 1,
        "max_batch_delay": 0,
        "queue_size": 100_000,
        **parts.pop("replica", {}),
    }
    stretch = {"seconds": 20, "settle_s": 2}
    return Scenario.model_validate({"replica": replica, "stretch": stretch, **parts})


def simulate(scenario: Scenario) -> cluster.LanguageOutcome:
    return cluster.run(scenario, 1)[0]


def wait_ms(outcome: cluster.LanguageOutcome, service_ms: float) -> float:
    assert outcome.latencies.mean_ms
    return outcome.latencies.mean_ms - service_ms


@pytest.mark.parametrize(
    ("parts", "service_ms", "wait"),
    [
        ({"traffic": {"requests_per_s": 60}}, 10, 10 * 0.6 / 0.8),
        (
            {"traffic": {"requests_per_s": 60, "tokens_spread": 1.0}},
            *(10, 10 * 0.6 / 0.8 * 2),
        ),
        (
            {
                "traffic": {"requests_per_s": 400},
                "gateways": {"request_ms": 2},
                "replica": {"workers": 1000},
            },
            *(12, 2 * 0.8 / 0.4),
        ),
    ],
    ids=["a row at a time", "lengths that differ", "a gateway's process"],
)
def test_a_queue_waits_as_pollaczek_and_khinchine_found(parts, service_ms, wait):
    outcome = simulate(make(stretch=LONG, **parts))
    assert wait_ms(outcome, service_ms) == pytest.approx(wait, rel=0.1)


def test_a_lone_client_waits_for_the_window_and_its_row():
    replica = {**BATCHES, "max_batch_delay": 5}
    outcome = simulate(make(traffic={"clients": 1}, replica=replica))
    assert outcome.mean_batch == 1
    assert outcome.latencies.p99_ms == pytest.approx(16)
    assert outcome.requests_per_s == pytest.approx(1000 / 16, rel=0.001)


def test_a_batch_has_what_comes_in_its_window():
    # One row opens the window, and further ones come at random.
    replica = {
        "service": {"ms": {1: 0.001}},
        "batch_size": 100_000,
        "max_batch_delay": 100,
    }
    outcome = simulate(
        make(traffic={"requests_per_s": 50}, replica=replica, stretch=LONG)
    )
    assert outcome.mean_batch == pytest.approx(1 + 50 * 0.1, rel=0.02)


def test_replicas_share_their_load():
    def wait(replicas: int, **gateways: Any) -> float:
        traffic = {"requests_per_s": 80 * replicas}
        return wait_ms(
            simulate(make(traffic=traffic, gateways=gateways, replicas=replicas)), 10
        )

    least = wait(8)
    assert least < 0.6 * wait(1)
    # Ingresses that see only their own requests choose worse.
    assert least < wait(8, ingresses=8)


@pytest.mark.parametrize(
    "replica",
    [
        pytest.param({"queue_size": 5}, id="full queue"),
        pytest.param({"queue_size": 10_000}, id="no time"),
    ],
)
def test_what_cannot_be_done_is_refused_and_the_rest_is_in_time(replica):
    traffic = {"requests_per_s": 200, "timeout_s": 1}
    outcome = simulate(make(traffic=traffic, replica=replica))
    assert outcome.requests_per_s == pytest.approx(100, rel=0.01)
    assert outcome.refused == pytest.approx(0.5, abs=0.02)
    assert outcome.late == 0
    assert (outcome.latencies.p99_ms or 0) <= 1000


def test_rows_that_come_too_late_are_counted():
    # The forecast knows the mean length only.
    traffic = {"requests_per_s": 80, "tokens_spread": 3, "timeout_s": 0.2}
    outcome = simulate(make(traffic=traffic))
    assert 0.01 < outcome.late < 0.5
    assert (outcome.latencies.p99_ms or 0) <= 200


def test_the_seed_decides_alone():
    scenario = make(traffic={"requests_per_s": 80, "tokens_spread": 0.5})
    assert (
        cluster.run(scenario, 1) == cluster.run(scenario, 1) != cluster.run(scenario, 2)
    )


def test_alike_traffic_needs_the_same_replicas_all_day():
    scenario = make(
        traffic={"requests_per_s": 400},
        replica={**REPLICA, "gpus": 0.5},
        replicas=[1, 100],
        autoscaling={"target_ongoing_requests": 15},
        gateways={"processes": 3},
        day=DAY,
        price=PRICE,
    )
    (outcome,) = cluster.run(scenario, 1)
    assert outcome.replicas == pytest.approx(outcome.most_replicas)
    assert outcome.gpu_hours == pytest.approx(outcome.most_replicas * 24 * 0.5)
    assert outcome.requests_per_s == pytest.approx(400, rel=0.03)
    hours = outcome.most_replicas * (0.5 * 3 + 1) + 3 * 2
    expected = hours / (outcome.requests_per_s * HOUR_S) * 1e6
    assert outcome.cost_per_million == pytest.approx(expected)


def test_replicas_follow_the_wave_with_serves_delays():
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
    assert scenario.day
    planner = cluster.Planner(scenario, scenario.day)
    parts = [part for hour in range(24) for part in planner.plan(hour)[1]]
    ready = [part.factor * part.replicas for part in parts]
    held = [part.held for part in parts]
    most = max(ready)
    # The replicas of 12:30 have started at 14:30, and are kept until 18:30.
    assert [hour for hour in range(24) if ready[hour] == most] == list(range(14, 19))
    # They are paid for from the moment when they are wanted.
    assert [hour for hour in range(24) if held[hour] == most] == list(range(13, 19))
    assert all(paid >= some for paid, some in zip(held, ready, strict=True))


def make_tally(language: str, times: list[float], factor: float) -> cluster.Tally:
    tally = cluster.Tally(
        cluster.LanguagePart(language, 1, 1, 1, 1, factor), seconds=10
    )
    tally.latencies_s.extend(times)
    return tally


def test_a_requests_weight_is_what_it_stands_for():
    scenario = make(traffic={"requests_per_s": 1}, day=DayEntry(moments=1))
    tallies = [make_tally("fr", [1, 1], 1), make_tally("ja", [3], 8)]
    whole, french, _ = cluster.summarize(scenario, tallies)
    assert whole.requests_per_s == pytest.approx(1)
    assert whole.latencies.mean_ms == pytest.approx(2600)
    assert whole.latencies.p50_ms == 3000
    assert french.requests_per_s == pytest.approx(0.2)


SCENARIO = """\
traffic: {requests_per_s: 50}
replica:
  service: {fixed_ms: 10, row_ms: 0}
  batch_size: 4
  max_batch_delay: 1000
stretch: {seconds: 2, settle_s: 0.5}
"""
#: Four clients fill a batch as soon as it is answered.
FULL = {"loop": "closed", "level": 4, "requests_per_s": 400.0, "mean_batch": 4.0} | {
    "latencies": {"p50_ms": 1.0, "p95_ms": 1.0, "p99_ms": 2.0}
}


def invoke(folder: Path, *options: str) -> tuple[Result, Any]:
    path, out = folder / "scenario.yaml", folder / "out.json"
    path.write_text(SCENARIO, "utf-8")
    result = CliRunner().invoke(
        app, ["simulate", str(path), "--out", str(out), *options]
    )
    return result, json.loads(out.read_text("utf-8")) if out.exists() else None


def test_loads_replace_the_traffic(tmp_path: Path):
    result, content = invoke(tmp_path, "--clients", "1,8", "--rates", "0.5")
    assert result.exit_code == 0, result.output
    levels = [one["load"].split()[0] for one in content["results"]]
    assert levels == ["1", "8", "0.5"]


def test_loads_of_a_cluster_say_their_machines_and_batches(tmp_path: Path):
    entries = [{"load": FULL, "batch_fill": 3.9}, {"load": FULL, "machines": 2}]
    path = tmp_path / "ingress.json"
    path.write_text(json.dumps({"results": entries}), "utf-8")
    one, two = cluster.read_measured(path)
    assert (one.mean_batch, two.replicas) == (3.9, 2)


@pytest.mark.parametrize(
    ("differs", "exit_code"),
    [({}, 0), ({"requests_per_s": 300.0}, 1), ({"mean_batch": 3.0}, 1)],
    ids=["agrees", "rate", "batch"],
)
def test_figures_are_compared_with_measured_ones(tmp_path, differs, exit_code):
    two = FULL | {"requests_per_s": 800.0, "level": 8, "replicas": 2}
    path = tmp_path / "measured.json"
    path.write_text(json.dumps({"results": {"loads": [FULL | differs, two]}}), "utf-8")
    result, content = invoke(tmp_path, "--check", str(path))
    assert result.exit_code == exit_code, result.output
    assert content["results"][1]["simulated"]["replicas"] == 2
