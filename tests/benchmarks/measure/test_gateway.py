"""The gateway's CPU time in each API and with keys, and its answers to hostile texts."""

import json
from functools import partial
from pathlib import Path

import pytest
import requests
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.measure import gateway
from benchmarks.measure.gateway import count_samples
from deploy.stack import ROOT
from tests.hostile import SHAPES


@pytest.mark.slow
@pytest.mark.parametrize("command", ["dialects", "keys"])
def test_real_gateways_answer_all(tmp_path: Path, command: str):
    out = tmp_path / "figures.json"
    options = ("--clients", "2", "--seconds", "0.1", "--rounds", "1")
    done = CliRunner().invoke(app, [command, *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    loads = json.loads(out.read_text())["results"]["turns"][""]
    for load in (load for found in loads.values() for load in found):
        assert set(load["statuses"]) == {"200"}


def test_a_shape_is_about_as_long_as_it_is_to_be():
    sizes = {
        shape.name: len(json.dumps(shape.write(1000), ensure_ascii=False).encode())
        for shape in SHAPES
    }
    assert {name for name, size in sizes.items() if not 950 <= size <= 1002} == set()


@pytest.mark.slow
def test_a_real_gateway_answers_every_shape(tmp_path: Path):
    sentence = {"src_lang": "en", "tgt_lang": "fr"}
    with gateway.start(tmp_path, {}) as running:
        post = partial(requests.post, running.url, timeout=60)
        texts = {
            shape.name: {"src_text": shape.write(10_000), "format": shape.format}
            for shape in SHAPES
        }
        statuses = {k: post(json=sentence | v).status_code for k, v in texts.items()}
        assert set(statuses.values()) <= {200, 413}, statuses
        assert requests.get(f"{running.url}/healthz", timeout=60).ok
    assert "Traceback" not in (tmp_path / "gateway.log").read_text()


SITE = "/usr/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("frames", "package"),
    [
        (f"run ({ROOT}/gateway/admission/queue.py:3)", "gateway.admission"),
        (f"call ({SITE}/flask/app.py:1);loads (json/decoder.py:3)", "flask"),
        (f"call ({SITE}/flask/app.py:1);recv ({SITE}/gevent/socket.py:3)", "flask"),
        ("<module> (/usr/lib/python3.11/runpy.py:9)", "Python"),
    ],
    ids=["ours", "Python's module for a library", "gevent for a library", "Python"],
)
def test_a_sample_counts_for_the_innermost_package(frames: str, package: str):
    assert count_samples([f"{frames} 2", f"{frames} 1"]) == {package: 3}


@pytest.mark.slow
def test_a_real_gateway_is_profiled(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(gateway, "_WARM_S", 0.1)
    out, flame = tmp_path / "figures.json", tmp_path / "flame.svg"
    options = ("--clients", "2", "--seconds", "1", "--flame", str(flame))
    done = CliRunner().invoke(app, ["profile", *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    parts = json.loads(out.read_text())["results"]["packages"]
    assert sum(part["percent"] for part in parts) == pytest.approx(100)
    assert "translate" in flame.read_text()
