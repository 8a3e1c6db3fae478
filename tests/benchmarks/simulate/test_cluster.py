"""The simulation agrees with what queueing theory knows, and loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.simulate.cluster import ScalingDecision, decide
from benchmarks.simulate.command import LanguageOutcome, run
from benchmarks.simulate.scenario import AutoscalingEntry, Scenario
from tests.benchmarks.simulate.conftest import Make

LONG = {"seconds": 200, "settle_s": 20}
#: A batch takes 10 ms, and 1 ms for each row.
BATCHES = {"service": {"fixed_ms": 10, "row_ms": 1}, "batch_size": 32}


def simulate(scenario: Scenario) -> LanguageOutcome:
    return run(scenario, 1)[0]


def wait_ms(outcome: LanguageOutcome, service_ms: float) -> float:
    assert outcome.latencies.mean_ms
    return outcome.latencies.mean_ms - service_ms


def test_one_row_at_a_time_waits_as_in_an_m_d_1_queue(make: Make):
    load = 0.6
    outcome = simulate(make(traffic={"requests_per_s": 100 * load}, stretch=LONG))
    assert wait_ms(outcome, 10) == pytest.approx(10 * load / (2 - 2 * load), rel=0.05)
    assert outcome.utilisation == pytest.approx(load, rel=0.02)


def test_lengths_that_differ_wait_as_pollaczek_and_khinchine_found(make: Make):
    traffic = {"requests_per_s": 60, "tokens_spread": 1.0}
    outcome = simulate(make(traffic=traffic, stretch=LONG))
    assert wait_ms(outcome, 10) == pytest.approx(10 * 0.6 / 0.8 * 2, rel=0.1)


def test_a_gateway_process_is_an_m_d_1_queue_too(make: Make):
    outcome = simulate(
        make(
            traffic={"requests_per_s": 400},
            gateways={"request_ms": 2},
            replica={"workers": 1000},
            stretch={"seconds": 40},
        )
    )
    assert wait_ms(outcome, 12) == pytest.approx(2 * 0.8 / 0.4, rel=0.05)


def test_a_lone_client_waits_for_the_window_and_its_row(make: Make):
    replica = {**BATCHES, "max_batch_delay": 5}
    outcome = simulate(make(traffic={"clients": 1}, replica=replica))
    assert outcome.mean_batch == 1
    assert outcome.latencies.p99_ms == pytest.approx(16)
    assert outcome.requests_per_s == pytest.approx(1000 / 16, rel=0.001)


def test_a_batch_has_what_comes_in_its_window(make: Make):
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


def test_replicas_share_their_load(make: Make):
    def wait(replicas: int, **gateways: Any) -> float:
        traffic = {"requests_per_s": 80 * replicas}
        return wait_ms(
            simulate(make(traffic=traffic, gateways=gateways, replicas=replicas)), 10
        )

    alone, least = wait(1, routing="two_choices"), wait(8)
    assert least < wait(8, routing="two_choices") < 0.6 * alone
    # Ingresses that see only their own requests choose worse.
    assert least < wait(8, ingresses=8)


@pytest.mark.parametrize(
    "replica",
    [
        pytest.param({"queue_size": 5}, id="full queue"),
        pytest.param({"queue_size": 10_000}, id="no time"),
    ],
)
def test_what_cannot_be_done_is_refused_and_the_rest_is_in_time(make: Make, replica):
    traffic = {"requests_per_s": 200, "timeout_s": 1}
    outcome = simulate(make(traffic=traffic, replica=replica))
    assert outcome.requests_per_s == pytest.approx(100, rel=0.01)
    assert outcome.refused == pytest.approx(0.5, abs=0.02)
    assert outcome.late == 0
    assert (outcome.latencies.p99_ms or 0) <= 1000


def test_rows_that_come_too_late_are_counted(make: Make):
    # The forecast knows the mean length only.
    traffic = {"requests_per_s": 80, "tokens_spread": 3, "timeout_s": 0.2}
    outcome = simulate(make(traffic=traffic))
    assert 0.01 < outcome.late < 0.5
    assert (outcome.latencies.p99_ms or 0) <= 200


def test_the_seed_decides_alone(make: Make):
    scenario = make(traffic={"requests_per_s": 80, "tokens_spread": 0.5})
    assert run(scenario, 1) == run(scenario, 1)
    assert run(scenario, 1) != run(scenario, 2)


SCALING = {"upscale_delay_s": 30, "downscale_delay_s": 60}


def test_replicas_come_after_their_delay_and_their_start(make: Make):
    outcome = simulate(
        make(
            traffic={"requests_per_s": 350, "timeout_s": 1},
            replica={"start_s": 20, "queue_size": 50},
            replicas=[1, 8],
            autoscaling=SCALING,
            stretch={"seconds": 80, "settle_s": 0},
        )
    )
    # The wish is 10 s old when the first figures are, and counts at 40 s.
    assert outcome.most_replicas == 8
    assert outcome.replicas == pytest.approx((1 * 40 + 8 * 40) / 80)
    # The one replica answers 100 a second until 60 s.
    assert outcome.refused == pytest.approx(1 - (6000 + 7000) / 28_000, abs=0.02)


ENTRY = AutoscalingEntry(upscale_delay_s=30, downscale_delay_s=600)
UP, DOWN = ScalingDecision(2, True, 70), ScalingDecision(2, False, 70)
NONE = ScalingDecision(2)


@pytest.mark.parametrize(
    ("last", "now_s", "wanted", "expected"),
    [
        pytest.param(NONE, 100, 2.0, NONE, id="as it is"),
        pytest.param(NONE, 100, 2.1, ScalingDecision(2, True, 100), id="more: a wish"),
        pytest.param(UP, 99, 2.1, UP, id="not yet"),
        pytest.param(UP, 100, 4.5, ScalingDecision(5), id="more"),
        pytest.param(UP, 100, 99, ScalingDecision(8), id="not beyond the most"),
        pytest.param(UP, 100, 2.0, NONE, id="given up"),
        pytest.param(UP, 100, 0.5, ScalingDecision(2, False, 100), id="the other way"),
        pytest.param(DOWN, 669, 0.5, DOWN, id="fewer, not yet"),
        pytest.param(DOWN, 670, 0, ScalingDecision(1), id="fewer, but one"),
    ],
)
def test_a_wish_counts_after_its_delay(
    last: ScalingDecision, now_s: float, wanted: float, expected: ScalingDecision
):
    found = decide(ENTRY, last, now_s=now_s, wanted=wanted, bounds=(1, 8))
    assert found == expected
