"""Runs `python -m clients` in this process or in a separate one."""

import subprocess
import sys
from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner

from clients.__main__ import app
from deploy.stack import ROOT
from tests.programs import spawn
from tests.scripted_server import LIMIT_S


def start(folder: Path, url: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a folder, whose modules take precedence over installed ones."""
    command = (sys.executable, "-m", "clients", *arguments, "--url", url)
    return spawn(*command, cwd=folder, PYTHONPATH=f"{folder}:{ROOT}")


def run(folder: Path, url: str, *arguments: str) -> tuple[int, str]:
    """Run a command in this process, and return its exit code and error output."""
    with chdir(folder):
        done = CliRunner().invoke(app, [*arguments, "--url", url])
    assert done.stdout == ""
    return done.exit_code, done.stderr


def run_process(folder: Path, url: str, *arguments: str) -> tuple[int, str]:
    """Do the same as `run` in a separate process."""
    process = start(folder, url, *arguments)
    out, said = process.communicate(timeout=LIMIT_S)
    assert out == ""
    return process.returncode, said
