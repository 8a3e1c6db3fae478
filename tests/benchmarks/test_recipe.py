"""The recipe of `make bench`, with a stand-in for the benchmarks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.stack import ROOT

PYTHON = """#!/bin/sh
echo "$@" >> {asked}
case "$*" in *"benchmarks {broken}"*) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("broken", "exit_code"),
    [pytest.param("nothing", 0, id="all"), pytest.param("stack", 2, id="one fails")],
)
def test_all_is_measured_and_a_failure_is_said_at_the_end(
    tmp_path: Path, broken: str, exit_code: int
):
    asked = tmp_path / "asked"
    python = tmp_path / "python"
    python.write_text(PYTHON.format(asked=asked, broken=broken))
    python.chmod(0o755)
    figures = tmp_path / "figures"
    command = [
        "make",
        "--old-file=up",
        "--old-file=.venv/ready-dev",
        "bench",
        f"BIN={tmp_path}",
        f"FIGURES={figures}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == exit_code, done.stderr
    assert ("Not all could be measured" in done.stdout) == bool(exit_code)
    first, *_, last = asked.read_text("utf-8").splitlines()
    assert first.startswith("-m benchmarks stack ")
    assert last.startswith("-m benchmarks compare --against placement --model 418M ")
