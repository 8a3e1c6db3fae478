"""Shared memory in which the gateway's processes, and the models' workers, see each
other's figures without asking.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections import deque
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

#: Gateway processes that can take part; those of a reload count twice for a while.
PROCESSES = 64
#: Rows of one process that workers can be told of at the same time.
ROWS = 4096
#: A process that has said nothing for so long is taken for dead, or holds nothing.
_SILENT_S = 10.0

_DOUBLE = np.dtype(np.float64)


class BoardFull(RuntimeError):
    """More processes than the board has places for."""


@dataclass(frozen=True)
class Load:
    """What a model has to do."""

    #: Rows that it has been sent, the work they are, and their bytes.
    sent_rows: float = 0.0
    sent: float = 0.0
    sent_bytes: float = 0.0
    #: Rows that wait in the gateway, and their work.
    waiting_rows: float = 0.0
    waiting: float = 0.0
    #: When it has answered last, or was sent something after it had nothing to do.
    heard_at: float = 0.0


_WHEN, _WAITING_ROWS, _HEARD_AT = 0, 4, 6
_FIELDS = 1 + len(fields(Load))


class Board:
    """One process's place on it. Without a folder it is the only process.

    Every process writes its own place only, and reads all of them, so nobody waits for a
    lock. A place is free again when its process has ended, however that came.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        self._lock, self.place = _take_place(folder)
        self._rows = np.frombuffer(
            _map_file(folder, "rows", PROCESSES * ROWS), np.uint8
        )
        first = self.place * ROWS
        self._rows[first : first + ROWS] = 0
        self._free = deque(range(first, first + ROWS))

    def open(self, model: str) -> ModelBoard:
        """What is said of one model."""
        size = PROCESSES * _FIELDS * _DOUBLE.itemsize
        values = np.frombuffer(_map_file(self._folder, f"{model}.model", size), _DOUBLE)
        return ModelBoard(values.reshape(PROCESSES, _FIELDS), self.place)

    def take_number(self) -> int | None:
        """A number under which the workers see that a row is wanted; None where none
        looks, or all numbers are taken."""
        if self._folder is None or not self._free:
            return None
        number = self._free.popleft()
        self._rows[number] = 1
        return number

    def revoke(self, number: int) -> None:
        """Nobody waits for this row any more."""
        self._rows[number] = 0

    def give_back(self, number: int) -> None:
        """The row is answered, or not wanted. Its number is used again as late as can be:
        until then it says that nobody waits."""
        self.revoke(number)
        self._free.append(number)


class ModelBoard:
    """What each process has for one model."""

    def __init__(self, values: npt.NDArray[np.float64], place: int) -> None:
        self._values = values
        self._own = values[place]
        self._own[:] = 0

    def tell(self, load: Load) -> None:
        """Says what this process has."""
        # Whoever reads between these two finds a row in hand only with its time.
        self._own[_HEARD_AT] = load.heard_at
        self._own[:] = (
            time.monotonic(),
            *(load.sent_rows, load.sent, load.sent_bytes),
            *(load.waiting_rows, load.waiting, load.heard_at),
        )

    def read(self) -> tuple[Load, int]:
        """What all processes have together, and in how many of them rows wait."""
        now = time.monotonic()
        # Whoever reads lives, also where its rows take so long that it had nothing to say.
        self._own[_WHEN] = now
        age_s = now - self._values[:, _WHEN]
        # A process may have told something since `now`, so an age may be negative. A place
        # of before the last boot may be from the far future.
        alive = self._values[np.abs(age_s) < _SILENT_S]
        waiting_in = int((alive[:, _WAITING_ROWS] > 0).sum())
        totals = alive[:, 1:].sum(axis=0).tolist()
        totals[-1] = float(alive[:, _HEARD_AT].max(initial=0.0))
        return Load(*totals), waiting_in


def _map_file(folder: Path | None, name: str, size: int) -> mmap.mmap:
    if folder is None:
        return mmap.mmap(-1, size)
    with (folder / name).open("a+b") as file:
        if os.fstat(file.fileno()).st_size < size:
            file.truncate(size)
        return mmap.mmap(file.fileno(), size)


def _take_place(folder: Path | None) -> tuple[int, int]:
    """A locked file and its number; the lock ends with the process."""
    if folder is None:
        return -1, 0
    for place in range(PROCESSES):
        lock = os.open(folder / f"{place}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return lock, place
    raise BoardFull(f"{PROCESSES} processes use {folder} already")
