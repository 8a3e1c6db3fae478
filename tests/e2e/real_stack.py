"""Starts, watches and stops a real stack on ports and in a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import psutil
import requests

from deploy import launch
from deploy import stack as stacks
from deploy.stack import ROOT, Backend, Stack, StackError
from ray_backend.nodes import LOOPBACK

START_S = 300


def run_deploy(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """`python -m deploy …`, as the Makefile calls it."""
    return subprocess.run(
        [sys.executable, "-m", "deploy", *arguments],
        cwd=ROOT,
        env=os.environ | {"BABELGATE_CACHE": str(cache), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=START_S,
    )


def find_port_offset(address: str = LOOPBACK) -> int:
    """An offset at which every port of a stack is free, whatever its models run on."""
    for offset in range(1000, 20_000, 500):
        wanted = Stack(Path(), Path(), None, offset, address=address)
        try:
            for backend in get_args(Backend):
                replace(wanted, backend=backend).check_ports()
        except StackError:
            continue
        return offset
    raise AssertionError("no free ports")


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


def processes(stack: Stack) -> list[psutil.Process]:
    supervisord = psutil.Process(int((stack.run / "supervisord.pid").read_text()))
    return [supervisord, *supervisord.children(recursive=True)]


def start_stack(
    run: Path, cache: Path, *arguments: str
) -> Generator[Stack, None, None]:
    """Brings a stack up and takes it down; no process or socket may be left."""
    offset = str(find_port_offset())
    yield from hold_stack(run, cache, "up", "--port-offset", offset, *arguments)


def hold_stack(run: Path, cache: Path, *arguments: str) -> Generator[Stack, None, None]:
    """As `start_stack`, with all of the command and its options."""
    done = run_deploy(*arguments, "--run-dir", str(run), cache=cache)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        started = stacks.read(run)
        assert started is not None
        yield started
    finally:
        run_deploy("down", "--run-dir", str(run), cache=cache)
        assert not [pid for pid in psutil.pids() if launch.is_ours(pid, run)]
        assert not [path for path in run.rglob("*") if path.is_socket()]
