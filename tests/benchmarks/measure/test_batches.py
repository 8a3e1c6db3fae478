"""The costs of batches: of engines alone and of handlers, on models whose costs are known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.instruments import passes
from benchmarks.instruments.passes import (
    EngineSubject,
    Measurement,
    MemoryEnds,
    Pass,
    PassPlan,
    SkippedSubject,
    Unsupported,
    measure_apart,
)
from benchmarks.instruments.workload import draw
from benchmarks.measure.batches import describe, find_knee, run_handler
from benchmarks.report import Spread, spread
from handlers.base import Outcome, TaskError
from handlers.engine.directories import SETTINGS_FILE
from tests.random_m2m100 import PHRASEBOOK

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Small:
    """Runs batches of at most four, a second each."""

    label: tuple[str, ...] = ("cpu",)
    device: str = "cpu"

    def prepare(self, cache: Path) -> Path:
        return cache

    def load(self, directory: Path) -> passes.Runner:
        return self.run

    def run(self, batches: Any) -> Pass:
        if any(len(batch) > 4 for batch in batches):
            raise MemoryEnds("they are run in halves")
        return Pass(1.0, 40)


def plan(subject: Any, *batches: int, limit_s: float = 60, passes: int = 2) -> PassPlan:
    items = tuple(range(max(batches)))
    return PassPlan(subject, batches, items, 4, repetitions=passes, limit_s=limit_s)


@pytest.mark.parametrize(
    ("name", "compute_type", "reason"),
    [
        ("transformers", "int8", "Transformers has no int8"),
        ("ctranslate2", "int2", "CTranslate2 has no int2 on this cpu"),
        ("fairseq", "float32", "there is no engine 'fairseq'"),
    ],
)
def test_what_an_engine_cannot_do_has_a_reason(
    tmp_path: Path, name: str, compute_type: str, reason: str
):
    with pytest.raises(Unsupported, match=reason):
        EngineSubject(tmp_path, name, compute_type).prepare(tmp_path)


def test_where_memory_ends_measuring_ends_and_says_so(tmp_path: Path):
    *measured, last = measure_apart(plan(Small(), 1, 4, 8, 16, passes=1), tmp_path)
    assert [m.batch for m in measured if isinstance(m, Measurement)] == [1, 4]
    assert isinstance(last, SkippedSubject)
    assert last.reason == "memory ends before batches of 8: they are run in halves"


def test_passes_become_figures():
    batches = [draw(4)[:2], draw(4)[2:]]
    done = [Pass(seconds, 40) for seconds in (2.0, 1.0, 4.0)]
    found = passes.summarize(("int8",), batches, done)
    assert found.items_per_s == Spread(2, 1, 4)
    assert found.tokens_per_s == pytest.approx(20)
    assert found.ms_per_batch == Spread(1000, 500, 2000)
    assert found.ms_per_item == pytest.approx(500)
    assert found.batch == 2


def measured(batch: int, rate: float, label: str = "cpu") -> Measurement:
    rates = spread([rate])
    return Measurement((label,), batch, 64, 1, rates, 1.0, rates, 1000 / rate, 100.0)


def test_the_knee_is_the_smallest_batch_with_nine_tenths_of_the_best():
    first = [measured(1, 10), measured(8, 85), measured(16, 91), measured(64, 100)]
    others = [measured(1, 5, "0"), measured(2, 9, "0")]
    assert find_knee(first).batch == 16
    found = describe([*first, *others, SkippedSubject(("1",), "it has no memory")])
    knees = [row[:2] for row in found.table.rows if row[-1] == "knee"]
    assert knees == [("cpu", "16"), ("0", "2")]
    time, throughput = found.charts
    assert throughput.dots == {"knee": [(16, 91), (2, 9)]}
    assert time.lines["0"] == [(1, 200), (2, pytest.approx(111.1, abs=0.1))]


def invoke(command: str, out: Path, *options: str):
    arguments = [command, "--out", str(out), *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})


def test_the_cost_of_a_batch_is_found(tmp_path: Path):
    """The model's batches take 20 ms, however large they are."""
    model = tmp_path / "echo"
    model.mkdir()
    for path in PHRASEBOOK.iterdir():
        if path.name != SETTINGS_FILE:
            (model / path.name).symlink_to(path)
    (model / SETTINGS_FILE).write_text('{"echo": {"batch_ms": 20}}')
    out, plot = tmp_path / "study.json", tmp_path / "study.svg"
    options = ("--set", "engine=echo", "--batches", "1,64", "--repetitions", "1")
    done = invoke("study", out, "--model", str(model), *options, "--plot", str(plot))
    assert done.exit_code == 0, done.output
    one, many = json.loads(out.read_text("utf-8"))["results"]["measured"]
    # 64 rows cost as much as one, but for what the machine does meanwhile.
    assert many["items_per_s"]["median"] > one["items_per_s"]["median"]
    assert plot.exists()


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
        run_handler(cast(Any, handler), [[b"{}"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--language", "xx"), "not in the map"), (("--model", "models"), "lacks")],
)
def test_what_cannot_be_studied_is_told(
    tmp_path: Path, options: tuple[str, ...], message: str
):
    done = invoke("study", tmp_path / "study.json", "--batches", "1", *options)
    assert message in done.output
