"""Shared memory in which the gateway's processes, and the models' workers, see each
other's figures without asking.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gateway.sharing import PROCESSES, map_file, take_place

#: Rows of one process that workers can look up at the same time.
ROWS = 4096
#: A process that was silent for this long is dead or has no rows.
_SILENT_S = 10.0

_DOUBLE = np.dtype(np.float64)


@dataclass(frozen=True)
class Load:
    """A model's work."""

    #: Rows sent to the model, their work, and their bytes.
    sent_rows: float = 0.0
    sent: float = 0.0
    sent_bytes: float = 0.0
    #: Rows that wait in the gateway, and their work.
    waiting_rows: float = 0.0
    waiting: float = 0.0
    #: When the model answered last, or got a row after it was idle.
    heard_at: float = 0.0


_WHEN, _WAITING_ROWS, _HEARD_AT = 0, 4, 6
_FIELDS = 1 + len(fields(Load))


class Board:
    """One process's place. Without a folder there is only this process.

    Each process writes its own place and reads all others, so no locks are needed. A place is
    free again as soon as its process has ended, in whatever way.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        self._lock, self.place = take_place(folder)
        self._rows = np.frombuffer(map_file(folder, "rows", PROCESSES * ROWS), np.uint8)
        first = self.place * ROWS
        self._rows[first : first + ROWS] = 0
        self._free = deque(range(first, first + ROWS))

    def open(self, model: str) -> ModelBoard:
        """The part of the board that is about one model."""
        size = PROCESSES * _FIELDS * _DOUBLE.itemsize
        values = np.frombuffer(map_file(self._folder, f"{model}.model", size), _DOUBLE)
        return ModelBoard(values.reshape(PROCESSES, _FIELDS), self.place)

    def take_number(self) -> int | None:
        """A number by which workers can look up whether a row is still wanted. None if no
        worker looks, or if all numbers are taken."""
        if self._folder is None or not self._free:
            return None
        number = self._free.popleft()
        self._rows[number] = 1
        return number

    def revoke(self, number: int) -> None:
        """Says that nobody waits for this row any more."""
        self._rows[number] = 0

    def give_back(self, number: int) -> None:
        """Returns the number of a finished row. It is reused as late as possible; until then
        it says that nobody waits."""
        self.revoke(number)
        self._free.append(number)


class ModelBoard:
    """Each process's work for one model."""

    def __init__(self, values: npt.NDArray[np.float64], place: int) -> None:
        self._values = values
        self._own = values[place]
        self._own[:] = 0

    def tell(self, load: Load) -> None:
        """Publishes this process's work."""
        # A reader between these two writes must not find a row without its time.
        self._own[_HEARD_AT] = load.heard_at
        self._own[:] = (
            time.monotonic(),
            *(load.sent_rows, load.sent, load.sent_bytes),
            *(load.waiting_rows, load.waiting, load.heard_at),
        )

    def read(self) -> tuple[Load, int]:
        """The work of all processes together, and the number of processes with waiting rows."""
        now = time.monotonic()
        # The reader itself is alive, even if its rows take so long that it was silent.
        self._own[_WHEN] = now
        age_s = now - self._values[:, _WHEN]
        # A process may have told something since `now`, so an age may be negative. A place
        # of before the last boot may be from the far future.
        alive = self._values[np.abs(age_s) < _SILENT_S]
        waiting_in = int((alive[:, _WAITING_ROWS] > 0).sum())
        totals = alive[:, 1:].sum(axis=0).tolist()
        totals[-1] = float(alive[:, _HEARD_AT].max(initial=0.0))
        return Load(*totals), waiting_in
