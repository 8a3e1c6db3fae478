"""What the benchmark of other APIs makes of its loads, and that it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import Latencies
from benchmarks.instruments.load import CLOSED, Load
from benchmarks.measure.dialects import (
    DIALECTS,
    OURS,
    command,
    describe,
    tabulate,
    write_requests,
)


def make_load(cpu_ms: float) -> Load:
    return Load(
        CLOSED, 16, 6.0, 600, 100.0, 0, Latencies(1, 2, 3), {"200": 600}, None,
        {"gateway": cpu_ms},
    )  # fmt: skip


@pytest.mark.parametrize(("deepl", "held"), [(0.68, "within 0.1"), (0.75, "over 0.1")])
def test_the_result_says_whether_the_promise_is_held(deepl, held):
    costs = dict.fromkeys(DIALECTS, 0.6) | {"DeepL": deepl}
    loads = {name: [make_load(cost)] * 3 for name, cost in costs.items()}
    said = describe(loads)
    assert said.startswith("DeepL adds")
    assert said.endswith(held + ".")
    rows = tabulate(loads).rows
    assert [row[0] for row in rows] == list(DIALECTS)
    assert [bool(row[2]) for row in rows] == [name != OURS for name in DIALECTS]


def test_each_api_is_asked_for_the_same():
    texts = {
        name: [find_text(json.loads(request.body)) for request in write_requests(name)]
        for name in DIALECTS
    }
    assert all(found == texts[OURS] for found in texts.values())


def find_text(fields: dict[str, Any]) -> str:
    text = fields.get("src_text") or fields.get("q") or fields["text"][0]
    assert isinstance(text, str)
    return text


@pytest.mark.slow
def test_a_gateway_answers_each_api(tmp_path: Path):
    out = tmp_path / "dialects.json"
    command(clients=2, seconds=0.1, rounds=1, out=out)
    loads = json.loads(out.read_text())["results"]["loads"]
    assert set(loads) == set(DIALECTS)
    for load in (load for found in loads.values() for load in found):
        assert set(load["statuses"]) == {"200"}
