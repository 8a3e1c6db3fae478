"""Packages that only some features need: the verbs of make that add them, by a dry run, and
what programs say without them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.stack import ROOT
from tests.programs import run

URL = "BABELGATE_LIMITS_URL=redis://127.0.0.1:6379"


@pytest.mark.parametrize(
    ("given", "extras"),
    [
        ("up", []),
        ("up BACKEND=ray", ["ray"]),
        ("join HEAD=10.0.0.1", ["ray"]),
        ("service BACKEND=ray", ["ray"]),
        ("service HEAD=10.0.0.1", ["ray"]),
        (f"up BABELGATE_IDENTIFIER=lingua {URL}", ["lingua", "redis"]),
        *((verb, ["dev"]) for verb in ("test", "quick", "check", "image", "bench")),
        (".venv/ready-parquet", ["parquet"]),
    ],
)
def test_a_verb_adds_the_packages_that_it_needs(given: str, extras: list[str]):
    environment = {"PATH": os.environ["PATH"]}
    arguments = ["--dry-run", "--always-make", *given.split()]
    commands = run("make", *arguments, env=environment)
    assert commands.count("-m venv ") == 1
    assert re.findall(r"Adding the Python packages for \"(\w+)\"", commands) == extras
    assert re.findall(r"--editable '\.\[(\w+)\]'", commands) == extras


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("ray_backend", "obstore", "ray"),
        ("benchmarks", "playwright", "dev"),
    ],
)
def test_a_program_says_in_one_line_what_installs_its_packages(
    tmp_path: Path, module: str, missing: str, extra: str
):
    said = f"No module named '{missing}'"
    (tmp_path / f"{missing}.py").write_text(f'raise ModuleNotFoundError("{said}")')
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == f"{said}: `make .venv/ready-{extra}` installs it.\n"
