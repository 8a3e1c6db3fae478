"""The command writes what it simulated, and compares it with what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app
from benchmarks.simulate.command import read_measured

SCENARIO = """\
traffic: {requests_per_s: 50, languages: 2}
replica:
  service: {fixed_ms: 10, row_ms: 0}
  batch_size: 4
  max_batch_delay: 1000
stretch: {seconds: 2, settle_s: 0.5}
"""
#: Four clients fill a batch as soon as it is answered.
FULL = {"loop": "closed", "level": 4, "requests_per_s": 400.0, "mean_batch": 4.0}
TIMES = {"p50_ms": 1.0, "p95_ms": 1.0, "p99_ms": 2.0}


def invoke(folder: Path, *options: str, text: str = SCENARIO) -> tuple[Result, Any]:
    path, out = folder / "scenario.yaml", folder / "out.json"
    path.write_text(text, "utf-8")
    result = CliRunner().invoke(
        app, ["simulate", str(path), "--out", str(out), *options]
    )
    return result, json.loads(out.read_text("utf-8")) if out.exists() else None


def write_loads(folder: Path, *loads: dict[str, Any]) -> str:
    path = folder / "measured.json"
    content = {"results": {"loads": [{**load, "latencies": TIMES} for load in loads]}}
    path.write_text(json.dumps(content), "utf-8")
    return str(path)


def test_what_agrees_with_a_measurement_passes(tmp_path: Path):
    one = SCENARIO.replace(", languages: 2", "")
    two = FULL | {"requests_per_s": 800.0, "level": 8, "replicas": 2}
    path = write_loads(tmp_path, FULL, two)
    result, content = invoke(tmp_path, "--check", path, text=one)
    assert result.exit_code == 0, result.output
    assert "within 15 %" in result.output
    first, second = content["results"]
    assert first["measured"]["mean_batch"] == first["simulated"]["mean_batch"] == 4
    assert second["simulated"]["replicas"] == 2
    table = (tmp_path / "out.md").read_text("utf-8")
    assert "| 8 clients, 2 replicas | 800 | 800 | 1.00 |" in table


def test_what_differs_by_more_fails(tmp_path: Path):
    one = SCENARIO.replace(", languages: 2", "")
    path = write_loads(tmp_path, FULL | {"requests_per_s": 300.0, "mean_batch": 3.0})
    result, _ = invoke(tmp_path, "--check", path, text=one)
    assert result.exit_code == 1
    assert "4 clients: requests/s 400 instead of 300" in result.output
    assert "4 clients: mean batch 4.00 instead of 3.00" in result.output


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        (["--check", "none.json"], SCENARIO, "expected what `benchmarks stack` or"),
        (["--check", "x"], SCENARIO + "day: {}\n", "a scenario without `day`"),
        (["--clients", "0"], SCENARIO, "expected whole numbers from 1"),
        ([], SCENARIO.replace("4", "0"), "replica.batch_size"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path, options: list[str], text: str, message: str
):
    result, content = invoke(tmp_path, *options, text=text)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert content is None


def test_other_loads_replace_the_traffic(tmp_path: Path):
    result, content = invoke(tmp_path, "--clients", "1,8", "--rates", "0.5")
    assert result.exit_code == 0, result.output
    names = [name for name, _ in content["results"]]
    assert names == ["1 clients", "8 clients", "0.5 requests/s"]
    languages = [outcome["language"] for outcome in content["results"][0][1]]
    assert languages == ["all", "language-1", "language-2"]
    assert content["options"]["seed"] == 0
    assert "language-2" in (tmp_path / "out.md").read_text("utf-8")


def test_loads_of_a_cluster_say_their_machines_and_batches(tmp_path: Path):
    load = {**FULL, "latencies": TIMES}
    entries = [
        {"name": "HAProxy", "load": load, "batch_fill": 3.9},
        {"load": load, "machines": 2},
    ]
    path = tmp_path / "ingress.json"
    path.write_text(json.dumps({"results": entries}), "utf-8")
    one, two = read_measured(path)
    assert (one.mean_batch, one.replicas) == (3.9, None)
    assert (two.mean_batch, two.replicas) == (None, 2)
    assert one.requests_per_s == two.requests_per_s == 400
