"""The costs of batches, in engines alone and in handlers, on models with known costs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.instruments import running
from benchmarks.measure import batches
from handlers.base import Outcome, TaskError
from tests.cluster.machines import write_model

pytestmark = pytest.mark.slow


def load(*_: object) -> batches.Runner:
    return run_small


def run_small(given: Any) -> batches.Pass:
    """Run batches of at most four, a second each."""
    if any(len(batch) > 4 for batch in given):
        raise batches.MemoryEnds("they are run in halves")
    return batches.Pass(1.0, 40)


def test_where_memory_ends_measuring_ends_and_says_so(tmp_path: Path):
    sizes, items = (1, 4, 8, 16), tuple(range(16))
    path = running.write_map(tmp_path / "map.json", {"engine": "echo"}, device="cpu")
    (model, *_) = running.read_map(path).models
    plan = batches.PassPlan(model, load, sizes, items, 4, 1, limit_s=60)
    measuring = batches.measure_apart(plan)
    assert [next(measuring).batch, next(measuring).batch] == [1, 4]
    said = "no memory for batches of 8: they are run in halves"
    with pytest.raises(batches.MemoryEnds, match=said):
        next(measuring)


def test_the_knee_is_the_smallest_batch_with_nine_tenths_of_the_best():
    rates = {"cpu": {1: 10, 8: 85, 16: 91, 64: 100}, "0": {1: 5, 2: 9}}
    found = batches.describe(
        [
            batches.summarize(device, [(0,) * batch], [batches.Pass(batch / rate, 1)])
            for device, known in rates.items()
            for batch, rate in known.items()
        ]
    )
    assert found.remarks == ["cpu: the knee is 16", "0: the knee is 2"]
    time, throughput = found.charts
    assert throughput.lines["0"] == [(1, 5), (2, 9)]
    assert throughput.dots["knee"][1] == (2, 9)
    assert time.lines["0"] == [(1, 200), (2, pytest.approx(111.1, abs=0.1))]


def test_the_cost_of_a_batch_is_found(tmp_path: Path):
    """The model's batches take 20 ms, however large they are."""
    model = write_model(tmp_path / "echo", batch_ms=20)
    out, plot = tmp_path / "study.json", tmp_path / "study.svg"
    files = ("--model", str(model), "--out", str(out), "--plot", str(plot))
    options = ("--set", "engine=echo", "--batches", "1,64", "--repetitions", "1")
    done = CliRunner().invoke(app, ["study", *files, *options])
    assert done.exit_code == 0, done.output
    one, many = json.loads(out.read_text("utf-8"))["results"]["measured"]
    # Apart from other load on the machine, 64 rows cost as much as one.
    assert many["items_per_s"]["median"] > one["items_per_s"]["median"]
    assert "knee" in plot.read_text("utf-8")


@dataclass
class Handler:
    """A handler with a fixed answer."""

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
        (Handler({}, halved=1), batches.MemoryEnds),
        (Handler(TaskError("out-of-memory", "")), batches.MemoryEnds),
        (Handler(TaskError("internal", "")), RuntimeError),
    ],
    ids=["halved", "a row alone", "another error"],
)
def test_a_batch_that_is_not_done_is_no_measurement(handler, error):
    with pytest.raises(error):
        batches.run_handler(cast(Any, handler), [[b"{}"]])
