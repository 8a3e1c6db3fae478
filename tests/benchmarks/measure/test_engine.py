"""The benchmark of the engines, on a tiny model with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.figures import Spread
from benchmarks.instruments import bare, passes, random_model
from benchmarks.instruments.bare import Configuration
from benchmarks.instruments.passes import Measurement, Plan, Skipped, Unsupported
from benchmarks.instruments.sentences import draw
from benchmarks.measure import engine

pytestmark = pytest.mark.slow

FAST = ("--sentences", "4", "--repetitions", "2")


def plan(model: Path, name: str, compute_type: str, **changes: float) -> Plan:
    return Plan(
        Configuration(model, name, compute_type),
        batches=(1, 8),
        items=draw(8),
        pass_items=4,
        repetitions=int(changes.get("repetitions", 2)),
        limit_s=changes.get("limit_s", 60),
    )


def measure(plan: Plan, cache: Path) -> list[Measurement]:
    """In this process."""
    results = list(passes.measure(plan, plan.subject.prepare(cache)))
    measured = [result for result in results if isinstance(result, Measurement)]
    assert len(measured) == len(results)
    return measured


@pytest.mark.parametrize(
    ("name", "compute_type"),
    [
        ("ctranslate2", "int8"),
        ("transformers", "bfloat16"),
    ],
)
def test_every_batch_size_is_measured(
    tiny: Path, tmp_path: Path, name: str, compute_type: str
):
    measured = measure(plan(tiny, name, compute_type), tmp_path)
    assert [(m.batch, m.items, m.repetitions) for m in measured] == [
        (1, 4, 2),
        (8, 8, 2),
    ]
    assert all(m.memory_mb > 0 and m.tokens_per_s > 0 for m in measured)


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
    with pytest.raises(Unsupported) as caught:
        Configuration(tmp_path, name, compute_type).prepare(tmp_path)
    assert str(caught.value) == reason


def test_no_pass_begins_after_the_limit(tiny: Path, tmp_path: Path):
    limited = plan(tiny, "ctranslate2", "int8", repetitions=9, limit_s=0)
    repetitions = [m.repetitions for m in measure(limited, tmp_path)]
    assert repetitions == [1, 1]


def test_a_process_that_dies_has_skipped_what_is_missing(tmp_path: Path):
    (skipped,) = passes.measure_apart(
        plan(tmp_path / "missing", "echo", "float32"), tmp_path
    )
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "the process ended with 1"


def test_batches_of_a_pass_are_full():
    five = Plan(
        Configuration(Path(), "ctranslate2", "int8"),
        batches=(2,),
        items=draw(5),
        pass_items=5,
        repetitions=1,
        limit_s=1,
    )
    assert [len(batch) for batch in five.divide(2)] == [2, 2]
    assert [len(batch) for batch in five.divide(5)] == [5]


def test_passes_become_figures():
    batches = [draw(4)[:2], draw(4)[2:]]
    measurement = passes.summarize(
        ("ctranslate2", "int8"),
        batches=batches,
        seconds=[2.0, 1.0, 4.0],
        tokens=40,
        memory_mb=100,
    )
    assert measurement.items_per_s == Spread(2, 1, 4)
    assert measurement.tokens_per_s == pytest.approx(20)
    assert measurement.ms_per_batch == Spread(1000, 500, 2000)
    assert measurement.ms_per_item == pytest.approx(500)
    assert measurement.batch == 2


def test_the_command_writes_figures_and_a_table(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "engine.json"
    chosen = ("--engines", "echo,transformers", "--compute-types", "int8")
    options = ("--model", str(tiny), "--batches", "2", "--out", str(out))
    done = CliRunner().invoke(app, ["engine", *options, *chosen, *FAST])
    assert done.exit_code == 0, done.output
    results = json.loads(out.read_text("utf-8"))["results"]
    assert [(m["label"][0], m["batch"]) for m in results["measured"]] == [("echo", 2)]
    assert [s["reason"] for s in results["skipped"]] == ["Transformers has no int8"]
    table = out.with_suffix(".md").read_text("utf-8").splitlines()
    assert len(table) == 4
    assert table[2].startswith("| echo | int8 | 2 |")


def test_a_model_that_is_none_is_refused(tmp_path: Path):
    done = CliRunner().invoke(app, ["engine", "--model", str(tmp_path)])
    assert done.exit_code == 1
    assert "it lacks config.json" in " ".join(done.output.split())


def test_there_is_a_line_per_engine_and_precision():
    measured = [
        Measurement(("ctranslate2", "int8"), batch, 4, 1, *figures(batch))
        for batch in (1, 2)
    ]
    throughput, time = engine.chart(measured)
    assert throughput.lines == {"ctranslate2 int8": [(1, 1.0), (2, 2.0)]}
    assert time.lines == {"ctranslate2 int8": [(1, 500.0), (2, 500.0)]}


def figures(rate: float) -> tuple[Spread, float, Spread, float, float]:
    return Spread(rate, rate, rate), 1.0, Spread(1, 1, 1), 500.0, 10.0


def test_a_random_model_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def build(directory: Path) -> Path:
        directory.mkdir()
        (directory / "model.safetensors").write_text("random")
        return directory

    monkeypatch.setattr(random_model, "build", build)
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path))
    built = bare.find_model("418M")
    (built / "model.safetensors").write_text("the first")
    assert bare.find_model("418M") == built
    assert (built / "model.safetensors").read_text() == "the first"
    assert json.loads((built / "babelgate.json").read_text()) == {
        "max_tokens": 32,
        "guard": False,
    }
