"""A search on stacks whose latency is a formula: the best combination is found and confirmed,
and a stopped search resumes. The error for a faulty plan names the place."""

import csv
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import catalog
from benchmarks import tuning
from benchmarks.__main__ import app
from benchmarks.driver import load_plan
from benchmarks.instruments.load import LoadFigures, WorkerFigures
from benchmarks.report import Latencies
from benchmarks.tuning import SlaEntry, Trial, TrialPoint, TuningPlan, TuningRun
from deploy.stack import StackError

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
GRID: dict[str, Any] = {
    "models": [{"max_batch_delay": [5, 10, 20, 30]}],
    "load": {"rates": [10, 20]},
    "sla": {"p99_ms": 120},
    "search": {"method": "grid", "minutes": 0.05},
}


def make_load(level: float, p99_ms: float | None, *, errors: int = 0) -> LoadFigures:
    latencies = Latencies(p99_ms, p99_ms, p99_ms)
    return LoadFigures("open", level, 1.0, 100, level, errors, latencies, {"200": 100})


class Stacks:
    """A substitute for `running.start`: p99 is the batch window plus 1 ms per request/s."""

    def __init__(self) -> None:
        #: The translation section of each stack's map, and the rate and seconds of each load.
        self.tried: list[dict[str, Any]] = []
        self.asked: list[tuple[float, float]] = []
        self.stops_after = 1000
        self.fault = ""

    @contextmanager
    def start(self, _: Path, map_path: Path) -> Iterator[SimpleNamespace]:
        if len(self.tried) == self.stops_after:
            raise KeyboardInterrupt
        self.tried.append(json.loads(map_path.read_text())["translation"])
        if self.fault:
            raise StackError(self.fault)
        yield SimpleNamespace(aim=lambda requests: requests, metrics_url="")

    def measure(self, _: Any, loop: str, rate: float, *, seconds: float) -> Any:
        self.asked.append((rate, seconds))
        return make_load(rate, self.tried[-1]["max_batch_delay"] + rate), []


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> Stacks:
    made = Stacks()
    monkeypatch.setattr("benchmarks.instruments.running.start", made.start)
    monkeypatch.setattr(tuning, "measure", made.measure)
    monkeypatch.setattr(tuning, "draw_requests", lambda *_, **__: [])
    monkeypatch.setattr(tuning, "read_counters", lambda url: Counter())
    monkeypatch.setattr(tuning, "COUNT_S", 0)
    return made


def run(folder: Path, *options: str, plan: str = PLAN) -> Any:
    path = folder / "plan.yaml"
    path.write_text(plan, "utf-8")
    arguments = ["tune", str(path), "--out", str(folder / "out"), *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


@pytest.mark.slow
def test_the_best_is_found_confirmed_and_written_down(tmp_path: Path, stacks: Stacks):
    result = run(tmp_path)
    assert result.exit_code == 0, result.output
    out = tmp_path / "out"
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    # A third of them, and the default, are measured again for twice as long.
    tried = {(row["rung"], row["configuration"]) for row in rows}
    assert Counter(rung for rung, _ in tried) == {"0": 5, "1": 3, "2": 1}
    assert ("1", "as it ships") in tried
    assert {seconds for rate, seconds in stacks.asked if rate == 80} == {1.25, 2, 3}
    first = next(row for row in rows if row["level"] == "40.0")
    assert (first["p99 ms"], first["is kept"]) == ("140.0", "False")
    written = json.loads((out / "setup_config.json").read_text())
    assert written["translation"]["max_batch_delay"] == 5
    assert list(written["cuda_id"]) == ["fr"]
    report = (out / "report.md").read_text()
    assert "4.00 times as much" in report  # 80/s with 5 ms, 20/s with 100 ms
    assert "1.00 of what was predicted" in report
    assert (out / "throughput.svg").exists()


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path, stacks: Stacks):
    stacks.stops_after = 3
    stopped = run(tmp_path)
    assert stopped.exit_code == 130
    assert (tmp_path / "out/report.md").exists()
    stacks.stops_after = 1000
    with (tmp_path / "out/trials.jsonl").open("a") as journal:
        journal.write('{"name": "torn')  # as by a kill or on a full disk
    assert run(tmp_path).exit_code == 0
    assert len(stacks.tried) == 9
    assert run(tmp_path).exit_code == 0
    assert len(stacks.tried) == 9


def test_a_fresh_run_forgets_results_only(tmp_path: Path, stacks: Stacks):
    short = PLAN.replace("[8, 64]", "8").replace("[5, 50]", "5")
    stacks.fault = "no memory"
    result = run(tmp_path, plan=short)
    assert "No tried combination keeps the SLA" in result.output
    assert "no memory" in (tmp_path / "out/report.md").read_text()
    count = len(stacks.tried)
    other = tmp_path / "out" / "mine.txt"
    other.write_text("kept")
    run(tmp_path, "--fresh", plan=short)
    assert len(stacks.tried) == 2 * count
    assert other.exists()
    # A plan with more time is still the same plan.
    assert run(tmp_path, plan=f"{short}search: {{minutes: 60}}\n").exit_code == 0
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "another plan's results" in result.output


def test_where_time_is_over_what_is_left_is_counted(tmp_path: Path, stacks: Stacks):
    plan = TuningRun(TuningPlan.model_validate(GRID), tmp_path)
    plan.trials = [make_trial(name, (10, 50)) for name in list(plan.combinations)[:3]]
    plan.search()
    assert len(stacks.tried) == 1, "the winner is confirmed"
    assert "There was no time for 2 combinations." in tuning.summarize(plan)


def test_with_more_time_an_earlier_winner_is_not_the_confirmed_one(tmp_path: Path):
    plan = TuningRun(TuningPlan.model_validate(GRID), tmp_path)
    for trial in (make_trial("early", (10, 50)), make_trial("best", (20, 50))):
        plan.trials += [trial, replace(trial, rung=len(plan.rungs))]
    (said,) = (s for s in tuning.summarize(plan).splitlines() if "Confirmed" in s)
    assert said.startswith("Confirmed: best")


def make_trial(name: str, *levels: tuple[float, float]) -> Trial:
    """Make a trial from the throughput and p99 of each level."""
    loads = (make_load(*level) for level in levels)
    points = [
        TrialPoint(name, 0, load, WorkerFigures(), is_kept=True) for load in loads
    ]
    return Trial(name, 0, 1.0, points)


@pytest.mark.parametrize(
    ("p99_ms", "errors", "is_kept"),
    [(101, 0, False), (100, 1, True), (100, 2, False), (None, 0, False)],
)
def test_an_sla_is_kept_or_not(p99_ms: float | None, errors: int, is_kept: bool):
    sla = SlaEntry(p99_ms=100, error_share=0.01)
    assert sla.is_kept(make_load(10, p99_ms, errors=errors)) is is_kept


def test_on_the_front_nobody_is_faster_and_answers_more(tmp_path: Path):
    plan = TuningRun(TuningPlan.model_validate(GRID), tmp_path)
    early = make_trial("a", (10, 5), (20, 3), (15, 20))
    # Only the last measurement of each level counts.
    plan.trials = [early, make_trial("b", (20, 12), (30, 40)), make_trial("a", (20, 9))]
    assert plan.rungs == [5], "a grid leaves nothing out"
    assert tuning.draw(plan).lines["front"] == [(30, 40), (20, 9), (10, 5)]


def test_every_task_can_be_tuned(tmp_path: Path):
    entry = {"task": "detection", "compute_type": ["float32"], "batch_size": [1, 8]}
    plan = TuningPlan.model_validate({**GRID, "models": [entry]})
    default, name, _ = plan.combine()
    assert default == "task=detection"
    assert name == "task=detection compute_type=float32 batch_size=1"
    path = plan.combine()[name].write_map(tmp_path / "map.json")
    (model,) = catalog.load(path).models
    assert (model.task, model.compute_type) == ("detection", "float32")
    assert (model.settings.batch_size, model.settings.max_batch_delay) == (1, 5)


def test_a_combination_that_is_no_map_is_refused_before_the_search(tmp_path, stacks):
    model = "8\n    engine: transformers\n    compute_type: int8"
    assert run(tmp_path, plan=PLAN.replace("[8, 64]", model)).exit_code == 1
    assert stacks.tried == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("p99_ms: 120", "p95_ms: 120", r"sla\.p95_ms\n  Extra inputs"),
        ("[8, 64]", "[8, 0]", r"models\.0\.batch_size\n .* expected a whole number"),
        ("rates: [10, 20, 40, 80]", "tokens: ''", "expected either rates or clients"),
        ("load:", "load:\n  tokens: 0-5", "'0-5': expected LEAST-MOST"),
        ("max_batch_delay", "batch_size", "batch_size appears twice"),
        ("batch_size", "max_batch_frames", r"models\.0\.max_batch_frames\n"),
        ("languages:", "task: detection\n    languages:", "only translation has"),
        ("load:", "load", "while scanning"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, old, new, said):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=rf"(?s)plan\.yaml: .*{said}"):
        load_plan(path, TuningPlan)
