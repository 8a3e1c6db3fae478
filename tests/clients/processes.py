"""`python -m clients`, as a call in this process and as a process of its own."""

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
    """A command in a folder; what is there to import wins over what is installed."""
    command = (sys.executable, "-m", "clients", *arguments, "--url", url)
    return spawn(*command, cwd=folder, PYTHONPATH=f"{folder}:{ROOT}")


def run(folder: Path, url: str, *arguments: str) -> tuple[int, str]:
    """Exit code and what was said."""
    with chdir(folder):
        done = CliRunner().invoke(app, [*arguments, "--url", url])
    assert done.stdout == ""
    return done.exit_code, done.stderr


def run_process(folder: Path, url: str, *arguments: str) -> tuple[int, str]:
    """The same of a process of its own."""
    process = start(folder, url, *arguments)
    out, said = process.communicate(timeout=LIMIT_S)
    assert out == ""
    return process.returncode, said
