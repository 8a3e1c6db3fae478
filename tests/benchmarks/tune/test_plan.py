"""A plan is read whole, and a wrong one is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

import catalog
from benchmarks.driver import PlanError
from benchmarks.tune.plan import TuningPlan, read_plan
from benchmarks.tune.search import write_map

PLAN = """\
models:
  - languages: [fr, de]
    batch_size: [16, 64]
    max_batch_delay: [5, 20]
    workers: 1
load:
  rates: [50, 25]
sla:
  p99_ms: 150
"""


def read(tmp_path: Path, text: str) -> TuningPlan:
    path = tmp_path / "plan.yaml"
    path.write_text(text, "utf-8")
    return read_plan(path)


DETECTION = """\
models:
  - task: detection
    compute_type: [float32, bfloat16]
    batch_size: [1, 8]
load:
  rates: [5, 50]
sla:
  p99_ms: 100
"""


def test_every_task_can_be_tuned(tmp_path: Path):
    default, *others = read(tmp_path, DETECTION).combine()
    assert {c.model for c in (default, *others)} == {"models/shapes/detection"}
    assert default.name == "task=detection"
    assert others[0].name == "task=detection compute_type=float32 batch_size=1"
    path = write_map(tmp_path / "map.json", others[0])
    (model,) = catalog.load(path).models
    assert (model.task, model.compute_type) == ("detection", "float32")
    assert (model.settings.batch_size, model.settings.max_batch_delay) == (1, 5)


def test_the_search_may_take_longer_with_the_same_results(tmp_path: Path):
    longer = PLAN + "search: {minutes: 60}\n"
    other = PLAN.replace("150", "200")
    fingerprint = read(tmp_path, PLAN).fingerprint
    assert read(tmp_path, longer).fingerprint == fingerprint
    assert read(tmp_path, other).fingerprint != fingerprint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p99_ms: 150", "p99_ms: soon", r":9: sla\.p99_ms: "),
        ("p99_ms: 150", "p95_ms: 150", r":8: sla\.p99_ms: Field required"),
        (
            "workers: 1",
            "workers: [1, 0]",
            r":5: models\.0\.workers: .*of at least 1.* 0",
        ),
        ("workers: 1", "worker: 1", r":5: models\.0\.worker: "),
        ("workers: 1", "engine: triton", r":5: models\.0\.engine: .*ctranslate2"),
        ("[5, 20]", "[5, fast]", r":4: models\.0\.max_batch_delay\.1: "),
        ("  rates: [50, 25]", "  seconds: 3", r":6: load: expected either rates or"),
        ("rates: [50, 25]", "rates: [50]\n  clients: 2", r"either rates or clients"),
        ("rates: [50, 25]", "clients: [0]", r"whole numbers from 1"),
        ("workers: 1", "batch_size: 1", r":5: batch_size: is there twice"),
        ("workers: 1", "max_batch_frames: 8", r":5: .*section has no such key"),
        ("languages:", "task: detection\n    languages:", r":3: .*only translation"),
        ("load:", "load", r"could not find expected ':'"),
        (PLAN, "[]", r"expected a mapping"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
):
    assert old in PLAN
    with pytest.raises(PlanError, match=message):
        read(tmp_path, PLAN.replace(old, new))
