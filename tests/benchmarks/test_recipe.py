"""The recipe of `make bench`, with a stand-in for the benchmarks."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.stack import ROOT

PYTHON = """#!/bin/sh
echo "$@" >> {asked}
case "$*" in *"benchmarks stack"*) exit 1;; esac
"""


def test_all_is_measured_and_a_failure_is_said_at_the_end(tmp_path: Path):
    asked = tmp_path / "asked"
    python = tmp_path / "python"
    python.write_text(PYTHON.format(asked=asked))
    python.chmod(0o755)
    command = ["make", "--old-file=up", "--old-file=.venv/ready-dev", "bench"]
    command += [f"BIN={tmp_path}", f"FIGURES={tmp_path / 'figures'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "Not all could be measured" in done.stdout
    first, *_, last = asked.read_text("utf-8").splitlines()
    assert first.startswith("-m benchmarks stack ")
    assert last.startswith("-m benchmarks compare --against placement --model 418M ")
