"""The tuner on real stacks, with an engine that costs nothing: what it finds out is known."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path

import pytest

from tests.programs import run
from torchserve_backend import catalog

PLAN = """\
models:
  - languages: [fr]
    engine: echo
    max_batch_delay: [5, 100]
load:
  clients: [1, 128]
  seconds: 2
  warm_up_seconds: 1
sla:
  p99_ms: 95  # within a window of 100 ms nothing is answered
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    plan = folder / "plan.yaml"
    plan.write_text(PLAN, "utf-8")
    command = (
        sys.executable,
        "-m",
        "benchmarks",
        "tune",
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


def test_the_window_is_what_a_lonely_request_waits_for(rows):
    short, long = (float(rows["echo", d, 1]["queue_ms"]) for d in ("5", "100"))
    assert long > 5 * short
    assert float(rows["echo", "100", 1]["p50_ms"]) > 100
    assert float(rows["echo", "5", 1]["batch_fill"]) == 1


def test_many_clients_fill_batches(rows):
    for delay in ("5", "100"):
        fills = [float(rows["echo", delay, n]["batch_fill"]) for n in (1, 128)]
        assert fills[1] > 4 * fills[0]


def test_nothing_keeps_an_sla_that_is_shorter_than_its_window(rows):
    kept = {key for key, row in rows.items() if row["is_within_sla"] == "True"}
    assert kept
    assert {delay for _, delay, _ in kept} == {"5"}


def test_the_winner_is_written_as_a_map_and_confirmed(out: Path):
    path = out / "setup_config.json"
    (model,) = catalog.load(path, gpus=0).models
    assert (model.settings.engine, model.settings.max_batch_delay) == ("echo", 5)
    assert (
        "Confirmed: engine=echo max_batch_delay=5: " in (out / "report.md").read_text()
    )
    assert json.loads(path.read_text())["cuda_id"].keys() == {"fr"}


def test_nothing_is_left_running(out: Path):
    assert not list((out / "stack").rglob("*.sock"))
