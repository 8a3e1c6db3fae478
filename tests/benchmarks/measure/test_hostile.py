"""The benchmark of hostile texts: its verdicts on counts, and that a real gateway answers
every shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from benchmarks.instruments.running import start_gateway, write_map
from benchmarks.measure import hostile
from benchmarks.measure.hostile import SHAPES


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
        costs = []
        for shape in SHAPES:
            costs.append(hostile.measure(running, shape, 10_000))
            assert costs[-1].status in ("200", "413", "200 413"), shape.name
        loads = hostile.send_texts(running, SHAPES[:3], 10_000)
        texts = hostile.wait_beside(running.url, loads)
        loads = hostile.send_forms(running.url, clients=8, seconds=0.1)
        forms = hostile.wait_beside(running.url, loads)
        assert (texts.hostile, forms.hostile >= 8) == (3, True)
        assert len(hostile.describe(costs, texts, forms).table.rows) == len(SHAPES)
        assert requests.get(f"{running.url}/healthz", timeout=60).ok
    assert "Traceback" not in (tmp_path / "run/gateway.log").read_text()
