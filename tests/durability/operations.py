"""Counts the operations of a process on files in a folder and on databases, and interferes with
one of them. Audit events of Python report files that are opened, renamed and removed;
`contract.durable` makes the calls without an event."""

import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any
from unittest.mock import patch

from contract import durable

_NAMING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
_TAKING_ROOM = {"open", "os.mkdir", "os.link", "write", "fsync", "commit"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Fault(StrEnum):
    KILL = "kill"
    ERROR = "error"
    #: The disk is full from then on.
    FULL = "full"
    #: Another process acts just before.
    OTHER = "other"


class Operations:
    """The operations of this process from `begin` on."""

    def __init__(
        self, folder: Path, number: int, fault: Fault, other: Callable[[], None]
    ) -> None:
        self.count = 0
        #: Files that were renamed before their content was synced.
        self.torn: list[str] = []
        self._folder = str(folder)
        self._number = number
        self._fault = fault
        self._other = other
        self._synced: set[int] = set()
        self._is_counting = True

    def begin(self) -> None:
        """Start counting; the hooks stay until the process ends."""
        commit = durable.commit

        def count_and_commit(transaction: durable.Transaction) -> None:
            self._step("commit")
            commit(transaction)

        patch.multiple(durable, os=self, commit=count_and_commit).start()
        sys.addaudithook(self._hear)

    def end(self) -> None:
        self._is_counting = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        self._step("fsync")
        os.fsync(descriptor)
        self._synced.add(os.fstat(descriptor).st_ino)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write the data, but only half of it before a fault."""
        if self.count + 1 == self._number and self._fault is not Fault.OTHER:
            os.write(descriptor, data[: len(data) // 2])
        self._step("write")
        return os.write(descriptor, data)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._is_counting:
            return
        if event == "open":
            is_named = not isinstance(args[0], int)
            if is_named and args[2] & _WRITING and self._is_ours(args[0]):
                self._step(event)
        elif event in _NAMING and self._is_ours(args[0]):
            self._step(event)
            if event == "os.rename":
                self._look_for_torn(Path(args[0]), Path(args[1]))

    def _is_ours(self, path: Any) -> bool:
        """Whether a path is ours, as are those relative to a descriptor (`shutil.rmtree`)."""
        is_relative = isinstance(path, int) or not os.path.isabs(path)
        return is_relative or os.fspath(path).startswith(self._folder)

    def _look_for_torn(self, source: Path, target: Path) -> None:
        files = [path for path in (source, *source.rglob("*")) if path.is_file()]
        for file in files:
            if file.stat().st_ino not in self._synced:
                self.torn.append(f"{file.name} as {target}")

    def _step(self, what: str) -> None:
        if not self._is_counting:
            return
        self.count += 1
        if self._fault is Fault.FULL:
            if self.count >= self._number and what in _TAKING_ROOM:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        elif self.count == self._number:
            self._interfere()

    def _interfere(self) -> None:
        if self._fault is Fault.ERROR:
            raise OSError(EIO, os.strerror(EIO))
        if self._fault is Fault.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        self.end()
        self._other()
        self._is_counting = True
