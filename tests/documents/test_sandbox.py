"""A sandbox's worker harms no other process, and its caller learns which limit ended it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.stack import ROOT
from documents.sandbox import Allowance, LimitExceeded, Sandbox, WorkerEnded
from tests.e2e.real_stack import wait_until

HOSTILE = "tests.documents.hostile_steps"
AMPLE = Allowance(cpu_s=30, time_s=60, memory_bytes=256 << 20, written_bytes=1 << 20)
LIMIT_S = 60


@pytest.fixture
def hostile() -> Iterator[Sandbox]:
    found = Sandbox(HOSTILE)
    yield found
    found.close()


def never() -> None:
    """Let the worker continue: its caller still waits."""


def ask(sandbox: Sandbox, deed: str, allowance: Allowance = AMPLE, **more: Any) -> Any:
    return sandbox.run({"deed": deed, **more}, allowance, never)["answer"]


@pytest.mark.parametrize(
    ("deed", "allowance", "resource"),
    [
        ("take memory", AMPLE, "memory"),
        ("hide memory", AMPLE, "memory"),
        ("match forever", replace(AMPLE, cpu_s=1), "cpu"),
        ("write", AMPLE, "bytes"),
        ("sleep", replace(AMPLE, time_s=2), "time"),
        ("stand still", replace(AMPLE, time_s=2), "time"),
    ],
)
def test_a_worker_that_exceeds_a_limit_is_ended_by_it(
    hostile, tmp_path, deed, allowance, resource
):
    told = tmp_path / "told"
    assert ask(hostile, "answer", what="start the server") == "start the server"
    with pytest.raises(LimitExceeded) as caught:
        ask(hostile, deed, allowance, file=str(tmp_path / "file"), told=str(told))
    assert caught.value.resource == resource
    assert are_gone(read_processes(told))
    assert ask(hostile, "answer", what="the next one") == "the next one"


@pytest.mark.parametrize("deed", ["end", "fail"])
def test_a_worker_that_ends_without_an_answer_is_told(hostile, deed):
    with pytest.raises(WorkerEnded):
        ask(hostile, deed)
    assert ask(hostile, "answer", what=[1, "é\udc00"]) == [1, "é\udc00"]


def read_processes(told: Path) -> list[int]:
    """Wait for the worker, and return its process id and its keeper's."""
    wait_until(lambda: told.exists() and told.read_text(), limit_s=LIMIT_S)
    found: list[int] = json.loads(told.read_text())
    return found


def are_gone(processes: list[int]) -> bool:
    def is_gone(number: int) -> bool:
        try:
            return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(lambda: all(map(is_gone, processes)), limit_s=LIMIT_S)
    return True


#: Deeds that never end.
DEEDS = [
    "stand still",
    pytest.param("sleep", marks=pytest.mark.faults),
    pytest.param("match forever", marks=pytest.mark.faults),
]


class Enough(Exception):
    """The caller no longer wants the answer."""


@pytest.mark.parametrize("deed", DEEDS)
def test_a_worker_that_nobody_waits_for_ends(hostile, tmp_path, deed):
    told = tmp_path / "told"

    def check() -> None:
        if told.exists():
            raise Enough

    with pytest.raises(Enough):
        hostile.run({"deed": deed, "told": str(told)}, AMPLE, check)
    assert are_gone(read_processes(told))


@pytest.mark.parametrize("victim", [0, 1], ids=["worker", "keeper"])
def test_a_worker_is_told_to_be_gone_that_is_killed(hostile, tmp_path, victim):
    told = tmp_path / "told"

    def check() -> None:
        if told.exists():
            os.kill(read_processes(told)[victim], signal.SIGKILL)

    with pytest.raises(WorkerEnded):
        hostile.run({"deed": "sleep", "told": str(told)}, AMPLE, check)
    assert are_gone(read_processes(told))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_is_killed_or_stands_still_is_replaced(hostile, number):
    assert ask(hostile, "answer", what=1) == 1
    (server,) = (
        child for child in psutil.Process().children() if HOSTILE in child.cmdline()
    )
    server.send_signal(number)
    if number == signal.SIGKILL:
        server.wait(LIMIT_S)
    with suppress(WorkerEnded, LimitExceeded):
        ask(hostile, "answer", replace(AMPLE, time_s=0.5), what=2)
    assert ask(hostile, "answer", what=3) == 3


def test_threads_replace_a_server_one_at_a_time(hostile):
    assert ask(hostile, "answer", what=1) == 1
    sent, limits = threading.Event(), replace(AMPLE, time_s=1)
    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(hostile.run, {"deed": "sleep"}, limits, sent.set)
        assert sent.wait(LIMIT_S)
        with hostile._lock, pytest.raises(TimeoutError):  # another thread starts one
            hung.result(2)
        assert isinstance(hung.exception(LIMIT_S), LimitExceeded)


PROGRAM = f"""
import sys
from documents.sandbox import Sandbox
from tests.documents.test_sandbox import AMPLE, never
Sandbox("{HOSTILE}").run({{"deed": sys.argv[1], "told": sys.argv[2]}}, AMPLE, never)
"""


@pytest.mark.parametrize("deed", DEEDS)
def test_workers_end_with_a_program_that_is_killed(tmp_path, deed):
    told = tmp_path / "told"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, deed, str(told)], cwd=ROOT
    ) as program:
        processes = read_processes(told)
        program.kill()
    assert are_gone(processes)


def test_workers_know_no_secrets(hostile, monkeypatch):
    monkeypatch.setenv("BABELGATE_DATABASE_URL", "postgresql://me:password@db/x")
    environment, has_client = ask(hostile, "look around")
    assert "password" not in json.dumps(environment)
    assert not has_client


def test_workers_run_at_the_same_time(hostile):
    release = threading.Event()

    def check() -> None:
        if release.is_set():
            raise Enough

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(hostile.run, {"deed": "match forever"}, AMPLE, check)
        try:
            assert [ask(hostile, "answer", what=n) for n in range(5)] == list(range(5))
        finally:
            release.set()
        assert isinstance(slow.exception(LIMIT_S), Enough)
