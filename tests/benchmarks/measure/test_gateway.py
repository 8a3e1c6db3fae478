"""The gateway's CPU for a request in each API and with keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.measure.gateway import DIALECTS, OURS, write_requests


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
@pytest.mark.parametrize("command", ["dialects", "keys"])
def test_real_gateways_answer_all(tmp_path: Path, command: str):
    out = tmp_path / "figures.json"
    options = ("--clients", "2", "--seconds", "0.1", "--rounds", "1")
    done = CliRunner().invoke(app, [command, *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    loads = json.loads(out.read_text())["results"]["turns"][""]
    for load in (load for found in loads.values() for load in found):
        assert set(load["statuses"]) == {"200"}
