"""A search on stacks that are a formula: the best is found, confirmed, and gone on with."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.instruments.load import LoadFigures, WorkerFigures
from benchmarks.report import Latencies
from benchmarks.tune import search as tune
from benchmarks.tune.plan import Combination, SlaEntry, TuningPlan
from benchmarks.tune.search import (
    Trial,
    TrialPoint,
    count_passing,
    find_front,
    keeps,
    list_points,
)

pytestmark = pytest.mark.slow

PLAN = """\
models:
  - languages: [fr]
    batch_size: [8, 64]
    max_batch_delay: [5, 50]
load:
  rates: [10, 20, 40, 80]
  seconds: 1
sla:
  p99_ms: 120
"""


WORKERS = WorkerFigures(10, 5.0, 20.0, 30.0, 0.1, 100)


def make_load(level: float, p99_ms: float | None, *, errors: int = 0) -> LoadFigures:
    latencies = Latencies(p99_ms, p99_ms, p99_ms, p99_ms, p99_ms)
    return LoadFigures("open", level, 1.0, 100, level, errors, latencies, {"200": 100})


class Stacks:
    """Stands for `run_trial`: the window, and a millisecond per arrival."""

    def __init__(self) -> None:
        self.tried: list[tuple[int, str]] = []
        self.stops_after = 1000

    def __call__(
        self,
        run_dir: Path,
        map_path: Path,
        combination: Combination,
        plan: TuningPlan,
        **options: Any,
    ) -> Trial:
        if len(self.tried) == self.stops_after:
            raise KeyboardInterrupt
        settings = json.loads(map_path.read_text())["translation"]
        points: list[TrialPoint] = []

        def passes(number: int) -> bool:
            level = plan.load.levels[number]
            load = make_load(level, settings["max_batch_delay"] + level)
            points.append(TrialPoint(load, WORKERS, keeps(load, plan.sla)))
            return points[-1].is_kept

        count_passing(len(plan.load.levels), passes, options["start"])
        rung = options["rung"]
        self.tried.append((rung, combination.name))
        return Trial(combination.name, rung, 1.0, tuple(points))


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> Stacks:
    made = Stacks()
    monkeypatch.setattr(tune, "run_trial", made)
    return made


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, "utf-8")
    return path


def run(plan: Path, *options: str) -> Any:
    arguments = ["tune", str(plan), "--out", str(plan.parent / "out"), *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


def test_the_best_is_found_confirmed_and_written_down(plan: Path, stacks: Stacks):
    result = run(plan)
    assert result.exit_code == 0, result.output
    # A third is measured again, and the default with it.
    assert [rung for rung, _ in stacks.tried] == [0] * 5 + [1] * 3 + [2]
    assert (1, "as it ships") in stacks.tried
    out = plan.parent / "out"
    written = json.loads((out / "setup_config.json").read_text())
    assert written["translation"]["max_batch_delay"] == 5
    assert list(written["cuda_id"]) == ["fr"]
    report = (out / "report.md").read_text()
    assert "4.00 times as much" in report  # 80/s with 5 ms; with 100 ms 20/s
    assert "1.00 of what was predicted" in report
    assert (out / "throughput.svg").exists()
    assert (out / "batches.svg").exists()
    assert_every_point_is_a_row(out / "results.csv")


def assert_every_point_is_a_row(path: Path) -> None:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    first = rows[0]
    assert (first["batch_size"], first["max_batch_delay"]) == ("64", "100")
    values = [first[key] for key in ("rate", "p99_ms", "is_within_sla")]
    assert values == ["40.0", "140.0", "False"]
    assert len({row["rung"] for row in rows}) == 3


def test_a_run_that_is_stopped_goes_on_where_it_was(plan: Path, stacks: Stacks):
    stacks.stops_after = 3
    stopped = run(plan)
    assert stopped.exit_code == 130
    assert "goes on" in stopped.output
    assert (plan.parent / "out" / "report.md").exists()
    stacks.stops_after = 1000
    assert run(plan).exit_code == 0
    assert len(stacks.tried) == len(set(stacks.tried)) == 9
    assert run(plan).exit_code == 0
    assert len(stacks.tried) == 9


def test_a_fresh_run_forgets_results_only(plan: Path, stacks: Stacks):
    plan.write_text(PLAN.replace("[8, 64]", "8").replace("[5, 50]", "5"))
    run(plan)
    count = len(stacks.tried)
    other = plan.parent / "out" / "mine.txt"
    other.write_text("kept")
    run(plan, "--fresh")
    assert len(stacks.tried) == 2 * count
    assert other.exists()
    plan.write_text(PLAN)
    result = run(plan)
    assert result.exit_code == 1
    assert "another plan's results" in result.output


def test_where_time_is_over_what_is_left_is_counted(plan: Path, stacks: Stacks):
    plan.write_text(PLAN + "search: {minutes: 0.1}\n")  # six trials of a second
    result = run(plan)
    assert "There was no time for 3 combinations." in result.output
    assert stacks.tried[-1][0] == 2
    assert len(stacks.tried) <= 6


@pytest.mark.parametrize(
    ("p99_ms", "errors", "is_kept"),
    [(101, 0, False), (100, 1, True), (100, 2, False), (None, 0, False)],
)
def test_an_sla_is_kept_or_not(p99_ms: float | None, errors: int, is_kept: bool):
    sla = SlaEntry(p99_ms=100, error_share=0.01)
    assert keeps(make_load(10, p99_ms, errors=errors), sla) is is_kept


@given(st.integers(1, 20), st.integers(0, 20), st.none() | st.integers(0, 19))
def test_the_levels_that_pass_are_counted(levels: int, passing: int, start: int | None):
    asked: list[int] = []

    def passes(level: int) -> bool:
        asked.append(level)
        return level < passing

    start = None if start is None else min(start, levels - 1)
    assert count_passing(levels, passes, start) == min(levels, passing)
    assert len(asked) == len(set(asked))


def make_trial(name: str, *levels: tuple[float, float]) -> Trial:
    """With the throughput and p99 of each level."""
    points = (TrialPoint(make_load(*level), WORKERS, is_kept=True) for level in levels)
    return Trial(name, 0, 1.0, tuple(points))


def test_a_combination_has_its_last_point_of_each_level():
    early = make_trial("fast", (10, 50), (80, 90))
    last = make_trial("fast", (80, 100), (90, 300))
    points = list_points("fast", [early, make_trial("slow", (20, 50)), last])
    p99s = {p.load.level: p.load.latencies.p99_ms for p in points}
    assert p99s == {10: 50, 80: 100, 90: 300}


def test_on_the_front_nobody_is_faster_and_answers_more():
    points = {(10.0, 5.0), (20.0, 9.0), (15.0, 20.0), (20.0, 12.0), (30.0, 40.0)}
    assert set(find_front(points)) == {(10, 5), (20, 9), (30, 40)}


def test_a_combination_that_is_no_map_is_refused_before_the_search(
    plan: Path, stacks: Stacks
):
    plan.write_text(
        PLAN.replace("[8, 64]", "8\n    engine: transformers\n    compute_type: int8")
    )
    result = run(plan)
    assert result.exit_code == 1
    assert "compute_type" in result.output
    assert stacks.tried == []
