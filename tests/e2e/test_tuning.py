"""The tuner on real stacks, with an engine that costs nothing: what it finds out is known."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path

import pytest

import catalog
from tests.programs import run

PLAN = """\
models:
  - languages: [fr]
    engine: echo
    max_batch_delay: [5, 2000]
load:
  clients: [1, 2]
  seconds: 2
  warm_up_seconds: 1
sla:
  p99_ms: 1500  # within a window of 2 s nothing is answered, whatever the machine
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    plan = folder / "plan.yaml"
    plan.write_text(PLAN, "utf-8")
    command = (
        *(sys.executable, "-m", "benchmarks", "tune"),
        plan,
        "--out",
        folder / "out",
    )
    env = os.environ | {"BABELGATE_CACHE": str(cache), "COLUMNS": "160"}
    run(*command, env=env, limit_s=500)
    return folder / "out"


@pytest.fixture(scope="module")
def rows(out: Path) -> dict[tuple[str, str, float], dict[str, str]]:
    """The first rung's rows, by engine, window and clients."""
    with (out / "results.csv").open() as file:
        return {
            (row["engine"], row["max_batch_delay"], float(row["concurrency"])): row
            for row in csv.DictReader(file)
            if row["rung"] == "0"
        }


def test_the_window_is_what_a_request_waits_for(rows):
    short, long = (float(rows["echo", d, 2]["queue_ms"]) for d in ("5", "2000"))
    assert long > 5 * short
    assert float(rows["echo", "2000", 1]["p99_ms"]) > 2000


def test_requests_within_a_window_are_one_batch(rows):
    fills = [float(rows["echo", "2000", n]["batch_fill"]) for n in (1, 2)]
    assert fills == [1, 2]


def test_nothing_keeps_an_sla_that_is_shorter_than_its_window(rows):
    kept = {key for key, row in rows.items() if row["is_within_sla"] == "True"}
    assert kept
    assert {delay for engine, delay, _ in kept if engine == "echo"} == {"5"}


def test_the_winner_is_written_as_a_map_and_confirmed(out: Path):
    path = out / "setup_config.json"
    (model,) = catalog.load(path, gpus=0).models
    assert (model.settings.engine, model.settings.max_batch_delay) == ("echo", 5)
    assert (
        "Confirmed: engine=echo max_batch_delay=5: " in (out / "report.md").read_text()
    )
    assert json.loads(path.read_text())["cuda_id"].keys() == {"fr"}
    assert not list((out / "stack").rglob("*.sock")), "something is left running"
