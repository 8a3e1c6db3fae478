"""The batch-size study, on an engine whose costs are known."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.figures import spread
from benchmarks.instruments import passes
from benchmarks.instruments.passes import Measurement, MemoryEnds, Pass, Plan, Skipped
from benchmarks.instruments.tasks import TaskRunner, TaskSubject
from benchmarks.instruments.workload import draw_requests
from benchmarks.measure.study import _find_model, chart, find_knee, tabulate
from contract.tasks import CLASSIFICATION
from handlers.base import Outcome, TaskError
from handlers.engine.directories import SETTINGS_FILE
from tests.random_m2m100 import PHRASEBOOK

pytestmark = pytest.mark.slow


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A model whose batches take 20 ms, however large they are."""
    directory = tmp_path / "echo"
    directory.mkdir()
    for path in PHRASEBOOK.iterdir():
        if path.name != SETTINGS_FILE:
            (directory / path.name).symlink_to(path)
    (directory / SETTINGS_FILE).write_text('{"echo": {"batch_ms": 20}}')
    return directory


def test_the_cost_of_a_batch_is_found(echo: Path, tmp_path: Path):
    out = tmp_path / "study.json"
    options = ("--set", "engine=echo", "--batches", "1,64", "--repetitions", "1")
    plot = ("--plot", str(tmp_path / "study.svg"))
    done = CliRunner().invoke(
        app, ["study", "--model", str(echo), "--out", str(out), *options, *plot]
    )
    assert done.exit_code == 0, done.output
    one, many = json.loads(out.read_text("utf-8"))["results"]["measured"]
    # 64 rows cost as much as one; half of that leaves room for a busy machine.
    assert many["items_per_s"]["median"] > 32 * one["items_per_s"]["median"]
    assert [one["batch"], many["batch"]] == [1, 64]
    with out.with_suffix(".csv").open() as file:
        assert [row["batch"] for row in csv.DictReader(file)] == ["1", "64"]
    assert out.with_suffix(".md").read_text("utf-8").count("knee") == 1
    assert (tmp_path / "study.svg").exists()


def test_a_task_that_takes_images_is_studied(tmp_path: Path):
    requests = draw_requests(CLASSIFICATION, 2)
    model = _find_model(CLASSIFICATION, "fr", "cpu", {"threads": 1})
    plan = Plan(TaskSubject(model), (2,), tuple(r.body for r in requests), 2, 1, 9)
    (measured,) = passes.measure(plan, plan.subject.prepare(tmp_path))
    assert isinstance(measured, Measurement)
    assert (measured.batch, measured.label) == (2, ("cpu",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--devices", "cuda"), "expected"),
        (("--task", "detection", "--set", "engine=echo"), "engine: unknown"),
        (("--batches", "0"), "whole numbers from 1"),
        (("--set", "engine=triton"), "engine"),
        (("--language", "xx"), "not in the map"),
        (("--model", "models"), "lacks"),
    ],
)
def test_what_cannot_be_studied_is_told(
    tmp_path: Path, options: tuple[str, ...], message: str
):
    command = [
        "study",
        "--batches",
        "1",
        *options,
        "--out",
        str(tmp_path / "study.json"),
    ]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "300"})
    assert message in done.output


def measure(batch: int, rate: float, label: str = "cpu") -> Measurement:
    rates = spread([rate])
    return Measurement((label,), batch, 64, 1, rates, 1.0, rates, 1000 / rate, 100.0)


MEASURED = [measure(1, 10), measure(8, 85), measure(16, 91), measure(64, 100)]


def test_the_knee_is_the_smallest_batch_with_nine_tenths_of_the_best():
    assert find_knee(MEASURED).batch == 16
    others = [measure(1, 5, "0"), measure(2, 9, "0")]
    rows = tabulate([*MEASURED, *others]).rows
    assert [row[:2] for row in rows if row[-1] == "knee"] == [("cpu", "16"), ("0", "2")]
    time, throughput = chart([*MEASURED, *others])
    assert throughput.dots == {"knee": [(16, 91), (2, 9)]}
    assert time.lines["0"] == [(1, 200), (2, pytest.approx(111.1, abs=0.1))]


class Small:
    """Runs batches of at most four."""

    label, device = ("cpu",), "cpu"

    def prepare(self, cache: Path) -> Path:
        return cache

    def load(self, directory: Path) -> Small:
        return self

    def run(self, batches: Any) -> Pass:
        if any(len(batch) > 4 for batch in batches):
            raise MemoryEnds("they are run in halves")
        return Pass(1.0, 0)


def test_where_memory_ends_the_study_ends_and_says_so(tmp_path: Path):
    plan = Plan(Small(), (1, 4, 8, 16), tuple(range(16)), 1, repetitions=1, limit_s=9)
    *measured, last = passes.measure(plan, tmp_path)
    assert [m.batch for m in measured if isinstance(m, Measurement)] == [1, 4]
    assert isinstance(last, Skipped)
    assert last.reason == "memory ends before batches of 8: they are run in halves"


@dataclass
class Handler:
    """Answers as it is told."""

    answer: Any
    halved: int = 0

    def preprocess(self, row: Any) -> Any:
        return row

    def infer(self, items: Any, deadline: float) -> Outcome:
        counts = {"BabelgateHalvedPacks": self.halved, "BabelgateTokens": 3}
        return Outcome([self.answer for _ in items], counts)


def test_tokens_are_what_the_handler_counts():
    runner = TaskRunner(Handler({}))  # type: ignore[arg-type]
    assert runner.run([[b"{}"], [b"{}"]]).tokens == 6


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (Handler({}, halved=1), MemoryEnds),
        (Handler(TaskError(HTTPStatus.OK, "out-of-memory", "")), MemoryEnds),
        (Handler(TaskError(HTTPStatus.OK, "internal", "")), RuntimeError),
    ],
    ids=["halved", "a row alone", "another error"],
)
def test_a_batch_that_is_not_done_is_no_measurement(
    handler: Handler, error: type[Exception]
):
    with pytest.raises(error):
        TaskRunner(handler).run([[b"{}"]])  # type: ignore[arg-type]
