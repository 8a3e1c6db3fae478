"""Starts, watches and stops a real stack on ports and in a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import requests

from benchmarks.instruments.ports import claim_port_offset
from deploy import launch
from deploy import stack as stacks
from deploy.stack import ROOT, Stack

START_S = 300


def run_deploy(
    *arguments: str, cache: Path, root: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run `python -m deploy …` in a clone, as its Makefile does."""
    return subprocess.run(
        [sys.executable, "-m", "deploy", *arguments],
        cwd=root,
        env=os.environ | {"BABELGATE_CACHE": str(cache), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=START_S,
    )


def wait_until(condition: Callable[[], object], *, limit_s: float = 90) -> None:
    give_up_at = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {limit_s} s"
        time.sleep(0.05)


def is_ready(url: str) -> bool:
    """Whether every language can be translated into."""
    try:
        return requests.get(f"{url}/readyz", timeout=5).ok
    except requests.RequestException:
        return False


def list_glossaries(url: str) -> list[str]:
    """Return the ids of all glossaries."""
    listed = requests.get(f"{url}/glossaries", timeout=30).json()
    return [glossary["id"] for glossary in listed["glossaries"]]


def delete_glossaries(url: str) -> None:
    for glossary_id in list_glossaries(url):
        requests.delete(f"{url}/glossaries/{glossary_id}", timeout=30)


def processes(stack: Stack) -> list[psutil.Process]:
    supervisord = psutil.Process(int((stack.run / "supervisord.pid").read_text()))
    return [supervisord, *supervisord.children(recursive=True)]


def start_stack(
    run: Path, cache: Path, *arguments: str
) -> Generator[Stack, None, None]:
    """Brings a stack up and takes it down; no process or socket may be left."""
    offset = str(claim_port_offset())
    yield from hold_stack(run, cache, "up", "--port-offset", offset, *arguments)


def hold_stack(run: Path, cache: Path, *arguments: str) -> Generator[Stack, None, None]:
    """As `start_stack`, with all of the command and its options. A shell takes the stack down
    as soon as its input ends, so that a killed pytest leaves no stack behind."""
    down = [sys.executable, "-m", "deploy", "down", "--run-dir", str(run)]
    guard = subprocess.Popen(
        ["sh", "-c", 'cat; exec "$@"', "sh", *down],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        done = run_deploy(*arguments, "--run-dir", str(run), cache=cache)
        assert done.returncode == 0, done.stdout + done.stderr
        started = stacks.read(run)
        assert started is not None
        yield started
    finally:
        guard.communicate(timeout=START_S)
        assert not [pid for pid in psutil.pids() if launch.is_ours(pid, run)]
        assert not [path for path in run.rglob("*") if path.is_socket()]
