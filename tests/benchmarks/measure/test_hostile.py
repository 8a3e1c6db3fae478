"""What the benchmark of hostile texts makes of its counts, and that a real gateway answers
every shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from benchmarks.instruments.running import start_gateway, write_map
from benchmarks.measure.hostile import (
    Cost,
    Waits,
    choose,
    describe,
    measure,
    measure_beside_forms,
    measure_waits,
    tabulate,
)
from benchmarks.measure.hostile_texts import SHAPES

COSTS = [
    Cost("letters", "text", 0.5, 1.0, "200"),
    Cost("open tags", "html", 1.0, 2.5, "200"),
    Cost("scripts", "html", 0.01, 0.05, "200"),
]


def test_the_result_says_whether_the_promises_are_held():
    beside_texts = Waits(10, 8.0, 100, 20.0, 15.0, 240.0)
    beside_forms = Waits(900, 30.0, 100, 400.0, 251.0, 999.0)
    lines = describe(COSTS, beside_texts, beside_forms).split("\n")
    ratio, cpu, waits, forms = lines
    assert ratio.endswith("2.50 times the CPU: over 2.2.")
    assert cpu.endswith("2.50 s: within 3.")
    assert waits.endswith("240 ms: within 250.")
    assert "251 ms at most: over 250;" in forms
    assert forms.endswith("999 ms: within 1000.")


def test_what_costs_nearly_nothing_has_no_ratio():
    assert [cost.ratio for cost in COSTS] == [2.0, 2.5, 1.0]


def test_the_dearest_come_first():
    assert [row[0] for row in tabulate(COSTS).rows] == [
        "open tags",
        "letters",
        "scripts",
    ]
    names = [shape.name for shape in choose(COSTS, 4)]
    assert names == ["open tags", "letters", "scripts", "open tags"]


def test_a_shape_is_about_as_long_as_it_is_to_be():
    sizes = {
        shape.name: len(json.dumps(shape.write(1000), ensure_ascii=False).encode())
        for shape in SHAPES
    }
    assert {name for name, size in sizes.items() if not 950 <= size <= 1002} == set()


@pytest.mark.slow
def test_a_real_gateway_answers_every_shape(tmp_path: Path):
    map_path = write_map(tmp_path / "map.json", {}, ["fr"], device="cpu")
    with start_gateway(tmp_path / "run", map_path) as running:
        for shape in SHAPES:
            cost = measure(running, shape, 10_000, rounds=1)
            assert cost.status in ("200", "413", "200 413"), shape.name
        assert measure_waits(running, SHAPES[:3], 10_000).asked > 0
        waits = measure_beside_forms(running, clients=8, seconds=0.1)
        assert waits.asked > 0
        assert waits.hostile >= 8
        assert requests.get(f"{running.url}/healthz", timeout=60).ok
    assert "Traceback" not in (tmp_path / "run/gateway.log").read_text()
