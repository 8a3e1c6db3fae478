"""Starts a server for one measurement, waits for it, and ends it with all it has started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_STOP_S, _LOOK_S = 30, 0.1


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


def wait_until(
    is_done: Callable[[], bool], leaders: Iterable[psutil.Popen], limit_s: float
) -> bool:
    """Whether it is done in time, and before one of the programs ends."""
    give_up_at = time.monotonic() + limit_s
    while not is_done():
        has_ended = any(leader.poll() is not None for leader in leaders)
        if has_ended or time.monotonic() > give_up_at:
            return False
        time.sleep(_LOOK_S)
    return True


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
