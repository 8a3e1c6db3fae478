"""Memory that the gateway's processes on one machine share: mapped files, tables of numbers, a
numbered place for each process, and a lock.
"""

import logging
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
from gevent.lock import Semaphore

from contract import durable

log = logging.getLogger(__name__)

#: Numbered places for processes. During a reload there are twice as many processes.
PROCESSES = 512
#: The initial capacity of a table in rows, and the bytes of a number in it.
_FIRST_ROWS, _NUMBER_BYTES = 1024, 8
#: The longest wait for a lock, in seconds, and the pauses between attempts. A lock is held for
#: microseconds, unless its process is paused meanwhile.
_LOCK_S, _LEAST_PAUSE_S, _MOST_PAUSE_S = 5.0, 0.0002, 0.01
_HELD = "another process holds the lock"


def map_file(folder: Path | None, name: str, size: int) -> mmap.mmap | None:
    """Return `size` bytes shared by name; None without a folder, or if the disk is full."""
    if folder is None:
        return None
    try:
        return _map(folder / name, size)
    except OSError as error:
        log.warning("%s is not shared: %s", folder / name, error.strerror)
        return None


def _map(path: Path, size: int) -> mmap.mmap:
    with path.open("a+b") as file:
        # Writing to a hole in a sparse file kills the process if the disk is full.
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def take_place(folder: Path) -> tuple[int, int] | None:
    """Lock a free place and return its descriptor and number, or None if other processes have
    all. The lock ends with the process."""
    for place in range(PROCESSES):
        lock = lock_file(folder / f"{place}.lock")
        if lock is not None:
            return lock, place
    said = "this process sees only its own load: %s processes already use %s"
    log.warning(said, PROCESSES, folder)
    return None


def lock_file(path: Path) -> int | None:
    """Make a file and lock it until this process ends or closes the descriptor. Return None if
    another process has locked it."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    if durable.try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


class SharedTable:
    """A table of 64-bit numbers whose rows are found by id: one growing file that each process
    maps. A caller must lock the table before it adds rows."""

    def __init__(self, path: Path, width: int) -> None:
        """Map the file. Raises OSError if the disk is full, as all methods do."""
        self._path = path
        self._width = 1 + width
        #: Row numbers, from 1 on, by id. Row 0 contains the number of rows.
        self._known: dict[int, int] = {}
        self._values = self._map(_FIRST_ROWS)

    def get(self, row_id: int) -> memoryview | None:
        """Return the row of an id, or None."""
        row = self._known.get(row_id) or self._learn().get(row_id)
        return self._cut(row) if row else None

    def find(self, row_id: int) -> memoryview:
        """Return the row of an id. A new row is all zeros."""
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
        """Return the ids of all rows, in row order."""
        return list(self._learn())

    def read_column(self, number: int) -> list[int]:
        """Return one number of every row, in row order."""
        first, end = self._width + 1 + number, (len(self._learn()) + 1) * self._width
        return self._values[first : end : self._width].tolist()

    def _cut(self, row: int) -> memoryview:
        first = row * self._width
        return self._values[first + 1 : first + self._width]

    def _learn(self) -> dict[int, int]:
        """Find the rows that other processes have added."""
        count = self._values[0]
        if (count + 1) * self._width > len(self._values):
            self._values = self._map(count + 1)
        for row in range(len(self._known) + 1, count + 1):
            self._known[self._values[row * self._width]] = row
        return self._known

    def _map(self, rows: int) -> memoryview:
        """Map the file, enlarged to at least these rows. Views of older mappings stay valid."""
        memory = _map(self._path, rows * self._width * _NUMBER_BYTES)
        return memoryview(memory).cast("q")


class Lock:
    """A lock between processes, and between the greenlets of this one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        self._turn = Semaphore(1)

    @contextmanager
    def hold(self, limit_s: float | None = None) -> Iterator[None]:
        """Acquire the lock for a `with` block. Raises TimeoutError if that takes too long."""
        limit_s = _LOCK_S if limit_s is None else limit_s
        give_up_at = time.monotonic() + limit_s
        if not self._turn.acquire(timeout=limit_s):
            raise TimeoutError(_HELD)
        try:
            self._wait(give_up_at)
            try:
                yield
            finally:
                durable.unlock(self._file)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _wait(self, give_up_at: float) -> None:
        pause_s = _LEAST_PAUSE_S
        while not durable.try_lock(self._file):
            if time.monotonic() > give_up_at:
                raise TimeoutError(_HELD)
            gevent.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
