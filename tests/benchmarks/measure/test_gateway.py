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
from benchmarks.measure.gateway import bound_memory


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


def test_a_process_gets_no_more_memory_than_its_bound():
    code = "input(); bytearray(400_000_000)"
    process = psutil.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    bound_memory(Running("", {"gateway": process}), 100)
    _, said = process.communicate(b"\n", timeout=60)
    assert b"MemoryError" in said
