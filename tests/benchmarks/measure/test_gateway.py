"""The gateway's CPU in each API and with keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app


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
