"""A run fails where a test leaves something behind, and lists of tests are kept up."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from deploy.stack import ROOT
from tests.conftest import SLOW
from tests.retries import RETRIED

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


@pytest.mark.slow
def test_the_last_test_of_a_folder_fails_where_it_leaks(tmp_path: Path):
    for folder, text in (("first", LEAKING), ("second", "def test_one():\n    pass\n")):
        (tmp_path / f"tests/{folder}").mkdir(parents=True)
        (tmp_path / f"tests/{folder}/test_{folder}.py").write_text(text)
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


def test_retried_tests_are_few_and_recent_and_have_a_reason():
    assert len(RETRIED) <= 5
    for test, (reason, since) in RETRIED.items():
        assert (ROOT / test.partition("::")[0]).exists()
        assert reason
        assert date.today() - since <= timedelta(days=31)


def test_slow_files_exist():
    assert [name for name in SLOW if not (ROOT / f"tests/{name}.py").exists()] == []
