"""What the benchmark of keys makes of its loads, and that it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import Latencies
from benchmarks.instruments.load import CLOSED, Load
from benchmarks.measure.keys import OFF, REQUIRED, command, describe, tabulate


def make_load(cpu_ms: float) -> Load:
    return Load(
        CLOSED, 16, 8.0, 800, 100.0, 0, Latencies(1, 2, 3), {"200": 800}, None,
        {"gateway": cpu_ms},
    )  # fmt: skip


@pytest.mark.parametrize(("required", "held"), [(0.7, "within 0.2"), (0.9, "over 0.2")])
def test_the_result_says_whether_the_promise_is_held(required, held):
    loads = {OFF: [make_load(0.6)] * 3, REQUIRED: [make_load(required)] * 3}
    assert describe(loads).endswith(f"ms of CPU to a request: {held}.")
    assert [row[0] for row in tabulate(loads).rows] == [OFF, REQUIRED]


@pytest.mark.slow
def test_both_gateways_answer_all(tmp_path: Path):
    out = tmp_path / "keys.json"
    command(clients=2, seconds=0.1, rounds=1, database_url="", limits_url="", out=out)
    loads = json.loads(out.read_text())["results"]["loads"]
    for load in (*loads[OFF], *loads[REQUIRED]):
        assert set(load["statuses"]) == {"200"}
