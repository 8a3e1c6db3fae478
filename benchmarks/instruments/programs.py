"""Starts a server for one measurement, waits for it, and ends it with all it has started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import requests

from deploy.stack import StackError
from torchserve_backend.management import ManagementError

START_S = 900
_STOP_S, _LOOK_S = 30, 0.1
_TAIL_LINES = 20


@contextmanager
def run_program(
    command: list[str], log: Path, *, folder: Path, environment: Mapping[str, str]
) -> Iterator[psutil.Popen]:
    """A program in a session of its own, which ends with the block."""
    with log.open("wb") as output:
        leader = psutil.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield leader
    finally:
        _end(leader)


def wait_until_ready(
    is_ready: Callable[[], bool],
    name: str,
    leaders: Mapping[Path, psutil.Popen],
    limit_s: float = START_S,
) -> None:
    """Waits while the programs run; one that does not answer yet is no error. Raises
    StackError with the ends of the programs' logs, which `leaders` names."""
    give_up_at = time.monotonic() + limit_s
    while not _holds(is_ready):
        has_ended = any(leader.poll() is not None for leader in leaders.values())
        if has_ended or time.monotonic() > give_up_at:
            lines = [f"{name} does not come up:"]
            for log in leaders:
                lines += log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
            raise StackError("\n".join(lines))
        time.sleep(_LOOK_S)


def _holds(is_ready: Callable[[], bool]) -> bool:
    with suppress(requests.RequestException, ManagementError):
        return is_ready()
    return False


def _end(leader: psutil.Popen) -> None:
    """Asks the leader to end, then kills its session, with what has lost its parent."""
    family = _find_session(leader.pid)
    with suppress(psutil.NoSuchProcess):
        leader.terminate()
    with suppress(psutil.TimeoutExpired):
        leader.wait(_STOP_S)
    left = {leader, *family, *_find_session(leader.pid)}
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=_STOP_S)


def _find_session(number: int) -> list[psutil.Process]:
    return [p for p in psutil.process_iter() if _read_session(p.pid) == number]


def _read_session(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return None
