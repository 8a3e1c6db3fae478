"""What the gateway's processes on one machine share: files in memory, a numbered place for
each process, and a lock.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
from gevent.lock import Semaphore

log = logging.getLogger(__name__)

#: Processes that can take part. During a reload there are twice as many.
PROCESSES = 64
#: The longest wait for a lock, in seconds, and the pauses between attempts. It is held for
#: microseconds, unless its process is stopped in between.
_LOCK_S, _LEAST_PAUSE_S, _MOST_PAUSE_S = 5.0, 0.0002, 0.01
_HELD = "another process holds the lock"


class NoPlaceLeft(RuntimeError):
    """There are more processes than places."""


def map_file(folder: Path | None, name: str, size: int) -> mmap.mmap:
    """Memory of `size` bytes, shared by name; without a folder, or where the disk is full,
    this process' own."""
    if folder is None:
        return mmap.mmap(-1, size)
    try:
        with (folder / name).open("a+b") as file:
            # Whoever writes into a hole of a file is killed where the disk is full.
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except OSError as error:
        log.warning("%s is not shared: %s", folder / name, error.strerror)
        return mmap.mmap(-1, size)


def take_place(folder: Path | None) -> tuple[int, int]:
    """A locked file and its number. The lock ends with the process. Raises NoPlaceLeft."""
    if folder is None:
        return -1, 0
    for place in range(PROCESSES):
        lock = _lock_place(folder, place)
        if lock is not None:
            return lock, place
    raise NoPlaceLeft(f"{PROCESSES} processes use {folder} already")


def list_dead_places(folder: Path) -> list[int]:
    """The places that processes have had and have no more."""
    dead = []
    for file in folder.glob("[0-9]*.lock"):
        lock = _lock_place(folder, int(file.stem))
        if lock is not None:
            os.close(lock)
            dead.append(int(file.stem))
    return sorted(dead)


def _lock_place(folder: Path, place: int) -> int | None:
    lock = os.open(folder / f"{place}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    if _try(lock):
        return lock
    os.close(lock)
    return None


class Lock:
    """Keeps other processes out, and other greenlets of this one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        self._turn = Semaphore(1)

    @contextmanager
    def hold(self, limit_s: float | None = None) -> Iterator[None]:
        """Raises TimeoutError if another process does not let go."""
        give_up_at = time.monotonic() + (_LOCK_S if limit_s is None else limit_s)
        if not self._turn.acquire(timeout=give_up_at - time.monotonic()):
            raise TimeoutError(_HELD)
        try:
            self._wait(give_up_at)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Gives the file back."""
        os.close(self._file)

    def _wait(self, give_up_at: float) -> None:
        pause_s = _LEAST_PAUSE_S
        while not _try(self._file):
            if time.monotonic() > give_up_at:
                raise TimeoutError(_HELD)
            gevent.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
