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
        for shape in SHAPES:
            cost = hostile.measure(running, shape, 10_000, rounds=1)
            assert cost.status in ("200", "413", "200 413"), shape.name
        assert hostile.measure_waits(running, SHAPES[:3], 10_000).asked > 0
        waits = hostile.measure_beside_forms(running, clients=8, seconds=0.1)
        assert waits.asked > 0
        assert waits.hostile >= 8
        assert requests.get(f"{running.url}/healthz", timeout=60).ok
    assert "Traceback" not in (tmp_path / "run/gateway.log").read_text()
