"""What a search's report says and draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import Latencies
from benchmarks.instruments.counters import WorkerFigures
from benchmarks.instruments.load import Load
from benchmarks.tune import report
from benchmarks.tune.plan import Plan, read_plan
from benchmarks.tune.report import Outcome
from benchmarks.tune.trials import Point, Trial

WORKERS = WorkerFigures(10, 5.0, 20.0, 30.0, 0.1, 100)


def make_trial(name: str, rung: int, *levels: tuple[float, float, bool]) -> Trial:
    """With the throughput, p99 and SLA of each level."""
    points = tuple(
        Point(
            Load("open", rate, 1.0, 100, rate, 0, Latencies(*[p99] * 5), {"200": 100}),
            WORKERS,
            is_kept,
        )
        for rate, p99, is_kept in levels
    )
    return Trial(name, rung, 1.0, points)


PLAN = """\
models: [{languages: fr}]
load: {rates: [10]}
sla: {p99_ms: 150, error_share: 0.01}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """With an SLA."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    return read_plan(tmp_path / "plan.yaml")


FAST = make_trial("fast", 1, (80, 100, True), (90, 300, False))
USUAL = make_trial("as it ships", 1, (40, 120, True))


def test_the_winner_is_compared_with_the_map_and_with_itself(plan: Plan):
    again = make_trial("fast", 2, (60, 110, True))
    said = report.summarize(plan, Outcome(FAST, USUAL, again, untried=3))
    assert said.splitlines() == [
        "Best within the SLA (p99 ≤ 150 ms, errors ≤ 1.00%): "
        "fast: 80.0 requests/s, p99 100 ms",
        "The map as it ships: 40.0 requests/s, p99 120 ms",
        "2.00 times as much.",
        "Confirmed: fast: 60.0 requests/s, p99 110 ms",
        "0.75 of what was predicted.",
        "There was no time for 3 combinations.",
    ]


def test_what_never_keeps_the_sla_is_not_divided_by(plan: Plan):
    late = make_trial("as it ships", 1, (40, 500, False))
    said = report.summarize(plan, Outcome(FAST, late, None, untried=0)).splitlines()
    assert said[1:] == ["The map as it ships: never within the SLA"]


def test_a_combination_stands_in_the_report_once_with_its_last_trial():
    early = make_trial("fast", 0, (10, 50, True), (80, 90, True))
    slow = make_trial("slow", 0, (20, 50, True))
    latest = report._find_latest([early, slow, USUAL, FAST])
    assert [(t.name, t.rung) for t in latest] == [
        *(("fast", 1), ("as it ships", 1), ("slow", 0))
    ]
    joined = report._join_rungs("fast", [early, slow, FAST])
    p99s = {p.load.level: p.load.latencies.p99_ms for p in joined.points}
    assert p99s == {10: 50, 80: 100, 90: 300}


def test_on_the_front_nobody_is_faster_and_answers_more():
    points = {(10.0, 5.0), (20.0, 9.0), (15.0, 20.0), (20.0, 12.0), (30.0, 40.0)}
    assert set(report._find_front(points)) == {(10, 5), (20, 9), (30, 40)}
