"""The look for leaks sees what is left behind, and the run fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.stack import ROOT

pytestmark = pytest.mark.slow

LEAKING = """
import socket
import subprocess
import tempfile
from tests import leaks

def test_one():
    leaks.PATIENCE_S = 0
    global kept
    kept = socket.create_server(("127.0.0.1", 0)), subprocess.Popen(["cat"], stdin=-1)
    open(tempfile.gettempdir() + "/forgotten", "w").close()
"""


def test_the_last_test_of_a_room_fails_where_it_leaks(tmp_path: Path):
    for room, text in (("first", LEAKING), ("second", "def test_one():\n    pass\n")):
        (tmp_path / f"tests/{room}").mkdir(parents=True)
        (tmp_path / f"tests/{room}/test_{room}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.leaks", str(tmp_path)]
        + ["--basetemp", str(tmp_path / "base")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "2 passed, 1 error" in done.stdout
    assert "tests/first has left behind:\nprocess " in done.stdout
    assert "\nport " in done.stdout
    assert "/forgotten\n" in done.stdout
    assert "tests/second" not in done.stdout.partition("= ERRORS =")[2]


STARTING = """
import threading
import pytest

@pytest.fixture(scope="session")
def started():
    yield
    print("has ended")

def test_one(started):
    print("has started", flush=True)
    threading.Event().wait()
"""


def test_a_run_that_is_terminated_ends_what_it_has_started(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(STARTING)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "tests.leaks"]
    with subprocess.Popen(
        [*command, "--basetemp", str(tmp_path / "base"), str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout
        while "has started" not in run.stdout.readline():
            assert run.poll() is None
        run.send_signal(signal.SIGTERM)
        assert "has ended" in run.stdout.read()
    assert run.returncode == pytest.ExitCode.INTERRUPTED
