"""Counters in memory that the gateway's processes and the models' workers share."""

from __future__ import annotations

import mmap
import struct
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from gateway.shared_memory import PROCESSES, map_file, take_place

#: Rows of one process that workers can look up at the same time.
ROWS = 4096
#: A process that was silent for this long has ended or has no rows.
_SILENT_S = 10.0


class ModelLoad(NamedTuple):
    """The load of a model."""

    #: Rows sent to the model, their work, and their bytes.
    sent_rows: float = 0.0
    sent: float = 0.0
    sent_bytes: float = 0.0
    #: Rows that wait in the gateway, and their work.
    waiting_rows: float = 0.0
    waiting: float = 0.0
    #: The time at which the model last answered, or got a row while idle.
    heard_at: float = 0.0


#: The numbers of a process: the time at which it published its load, and the load.
_WIDTH = 1 + len(ModelLoad._fields)
_NUMBER_BYTES = 8
_PLACE = struct.Struct(f"{_WIDTH}d")


class SharedCounters:
    """The counters of one process, in its place in shared memory. They are private without a
    folder, if all places are taken, or if the disk is full.

    Each process writes only its place and reads all others, so no locks are needed. However a
    process ends, its place is then free again."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        taken = take_place(folder) if folder else None
        self._folder = folder if taken else None
        self._lock, self.place = taken or (-1, 0)
        shared = map_file(self._folder, "rows", PROCESSES * ROWS)
        self._rows = shared or mmap.mmap(-1, PROCESSES * ROWS)
        first = self.place * ROWS
        self._rows[first : first + ROWS] = bytes(ROWS)
        # Workers would take a number that is not in their file for an unwanted row's.
        self._free = deque(range(first, first + ROWS) if shared else ())

    def open(self, model: str) -> ModelCounters:
        """The counters of one model."""
        size = _NUMBER_BYTES * (1 + PROCESSES * _WIDTH)
        shared = map_file(self._folder, f"{model}.model", size)
        return ModelCounters(shared or mmap.mmap(-1, size), self.place)

    def take_number(self) -> int | None:
        """Return a number by which workers can check whether a row is still wanted, or None if
        no worker checks or all numbers are taken."""
        if not self._free:
            return None
        number = self._free.popleft()
        self._rows[number] = 1
        return number

    def revoke(self, number: int) -> None:
        """Mark a row as no longer wanted."""
        self._rows[number] = 0

    def give_back(self, number: int) -> None:
        """Free the number of a finished row. It is reused as late as possible, and marks an
        unwanted row until then."""
        self.revoke(number)
        self._free.append(number)


class ModelCounters:
    """The load of one model, by process. The first number counts the places that were ever
    taken; the lowest are taken first."""

    def __init__(self, memory: mmap.mmap, place: int) -> None:
        self._memory = memoryview(memory).cast("d")
        self._place = place
        self._own = 1 + place * _WIDTH
        self._write_load(0.0, ModelLoad())

    def publish(self, load: ModelLoad) -> None:
        # A reader between these two writes must not find a row without its time.
        self._memory[self._own + _WIDTH - 1] = load.heard_at
        self._write_load(time.monotonic(), load)

    def read(self) -> tuple[ModelLoad, int]:
        """Return the total load, and the number of processes with waiting rows."""
        memory, now = self._memory, time.monotonic()
        # The reader itself is alive, even if its rows take so long that it was silent.
        memory[self._own] = now
        places = max(self._place + 1, int(min(PROCESSES, memory[0])))
        numbers = memory[1 : 1 + places * _WIDTH].tolist()
        loads = [
            ModelLoad._make(numbers[at + 1 : at + _WIDTH])
            for at in range(0, len(numbers), _WIDTH)
            # A process may have published since `now`, so an age may be negative. A place
            # written before the last boot may be from the far future.
            if abs(now - numbers[at]) < _SILENT_S
        ]
        if len(loads) == 1:
            return loads[0], int(loads[0].waiting_rows > 0)
        *counts, heard_at = zip(*loads, strict=True)
        total = ModelLoad._make([*map(sum, counts), max(heard_at)])
        return total, sum(load.waiting_rows > 0 for load in loads)

    def _write_load(self, when: float, load: ModelLoad) -> None:
        _PLACE.pack_into(self._memory, self._own * _NUMBER_BYTES, when, *load)
        # Another process, at a lower place, may have overwritten the number.
        if self._memory[0] <= self._place:
            self._memory[0] = self._place + 1
