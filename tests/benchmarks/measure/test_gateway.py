"""The gateway's CPU in each API and with keys, and a bound that a process feels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.instruments.running import Running
from benchmarks.measure.gateway import bound_memory, count_samples
from deploy.stack import ROOT


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
def test_a_real_gateway_is_profiled(tmp_path: Path):
    out, flame = tmp_path / "figures.json", tmp_path / "flame.svg"
    options = ("--clients", "2", "--seconds", "1", "--flame", str(flame))
    done = CliRunner().invoke(app, ["profile", *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "gunicorn" in done.output
    assert "translate" in flame.read_text()


def test_a_process_gets_no_more_memory_than_its_bound():
    code = "input(); bytearray(400_000_000)"
    process = psutil.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    bound_memory(Running("", {"gateway": process}), 100)
    _, said = process.communicate(b"\n", timeout=60)
    assert b"MemoryError" in said
