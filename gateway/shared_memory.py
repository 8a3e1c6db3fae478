"""The shared memory of the gateway's processes on one machine: files in memory, tables of
numbers in them, a numbered place for each process, and a lock.
"""

import logging
import mmap
import os
import time
from pathlib import Path
from typing import Self

import gevent
from gevent.lock import Semaphore

from contract import durable

log = logging.getLogger(__name__)

#: Numbered places for processes. During a reload there are twice as many processes.
PROCESSES = 512
#: Rows that a table has room for at first, and bytes of a number in it.
_FIRST_ROWS, _NUMBER_BYTES = 1024, 8
#: The longest wait for a lock, in seconds, and the pauses between attempts. It is held for
#: microseconds, unless its process is stopped in between.
_LOCK_S, _LEAST_PAUSE_S, _MOST_PAUSE_S = 5.0, 0.0002, 0.01
_HELD = "another process holds the lock"


def map_file(folder: Path | None, name: str, size: int) -> mmap.mmap:
    """Memory of `size` bytes, shared by name; without a folder, or where the disk is full,
    this process' own."""
    if folder is None:
        return mmap.mmap(-1, size)
    try:
        return _map(folder / name, size)
    except OSError as error:
        log.warning("%s is not shared: %s", folder / name, error.strerror)
        return mmap.mmap(-1, size)


def _map(path: Path, size: int) -> mmap.mmap:
    with path.open("a+b") as file:
        # A process that writes into a hole of a file is killed where the disk is full.
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def take_place(folder: Path) -> tuple[int, int] | None:
    """A locked file and its number, None where other processes have all. The lock ends with
    the process."""
    for place in range(PROCESSES):
        lock = lock_file(folder / f"{place}.lock")
        if lock is not None:
            return lock, place
    said = "this process sees its own load only: %s processes use %s already"
    log.warning(said, PROCESSES, folder)
    return None


def lock_file(path: Path) -> int | None:
    """Makes a file and locks it until this process ends or closes the descriptor. None where
    another process has it."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    if durable.try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


class SharedTable:
    """Rows of 64-bit numbers that are found by an id: one file that grows, and one mapping of
    it in each process. Only who holds a lock of its own may add rows."""

    def __init__(self, path: Path, width: int) -> None:
        """Raises OSError, as all that follows, where the disk is full."""
        self._path, self._width = path, 1 + width
        #: The number of a row, from 1 on, by its id. Row 0 has the number of rows.
        self._known: dict[int, int] = {}
        self._values = self._map(_FIRST_ROWS)

    def get(self, row_id: int) -> memoryview | None:
        """The row of an id, None without one."""
        row = self._known.get(row_id) or self._learn().get(row_id)
        return self._cut(row) if row else None

    def find(self, row_id: int) -> memoryview:
        """The row of an id; a new one has zeros."""
        found = self.get(row_id)
        if found is not None:
            return found
        row = self._values[0] + 1
        if (row + 1) * self._width > len(self._values):
            self._values = self._map(2 * row)
        self._values[row * self._width] = row_id
        self._values[0] = row
        return self._cut(self._learn()[row_id])

    def read_ids(self) -> list[int]:
        """The ids of all rows, in their order."""
        return list(self._learn())

    def read_column(self, number: int) -> list[int]:
        """A number of every row, in their order."""
        first, end = self._width + 1 + number, (len(self._learn()) + 1) * self._width
        return self._values[first : end : self._width].tolist()

    def _cut(self, row: int) -> memoryview:
        first = row * self._width
        return self._values[first + 1 : first + self._width]

    def _learn(self) -> dict[int, int]:
        """Takes over what other processes have added."""
        count = self._values[0]
        if (count + 1) * self._width > len(self._values):
            self._values = self._map(count + 1)
        for row in range(len(self._known) + 1, count + 1):
            self._known[self._values[row * self._width]] = row
        return self._known

    def _map(self, rows: int) -> memoryview:
        """The file with room for at least these rows. What was cut before stays valid."""
        memory = _map(self._path, rows * self._width * _NUMBER_BYTES)
        return memoryview(memory).cast("q")


class Lock:
    """Keeps other processes out, and other greenlets of this one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        self._turn = Semaphore(1)

    def hold(self, limit_s: float | None = None) -> Self:
        """Takes it for a block. Raises TimeoutError if another process does not let go."""
        limit_s = _LOCK_S if limit_s is None else limit_s
        give_up_at = time.monotonic() + limit_s
        if not self._turn.acquire(timeout=limit_s):
            raise TimeoutError(_HELD)
        try:
            self._wait(give_up_at)
        except BaseException:
            self._turn.release()
            raise
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        try:
            durable.unlock(self._file)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Gives the file back."""
        os.close(self._file)

    def _wait(self, give_up_at: float) -> None:
        pause_s = _LEAST_PAUSE_S
        while not durable.try_lock(self._file):
            if time.monotonic() > give_up_at:
                raise TimeoutError(_HELD)
            gevent.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
