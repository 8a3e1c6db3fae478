"""Bounds the bytes that documents take. Each has an entry whose size is what the document may
need: a file without content, so that one look at a folder tells all.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The least that a document counts: its folder and files take room whatever is in them.
_LEAST_BYTES = 64 << 10
#: The translation needs about as much room as the document.
_COPIES = 2
#: An entry without a document is one that a killed program has left, after this many seconds.
_STRAY_S = 3600.0


class LimitReached(Exception):
    """The documents of a caller (`is_own`), or of all, have reached a limit."""

    def __init__(self, limit: int, *, is_own: bool) -> None:
        super().__init__(limit, is_own)
        self.limit = limit
        self.is_own = is_own


class NoRoom(LimitReached):
    """The documents take as many bytes as they may."""


@dataclass(frozen=True)
class DiskLimits:
    """The most bytes of all documents, and of one caller's; so much of the disk stays free."""

    of_all: int = sys.maxsize
    of_one: int = sys.maxsize
    reserve: int = 0


class DocumentBudget:
    """The disk space of all documents. A `mark` is a document's owner, caller and id."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of all documents."""
        self._folder = folder
        self._sizes = folder / "sizes"

    def reserve(self, mark: Sequence[str], size: int, room: DiskLimits) -> None:
        """Keeps room for an upload of `size` bytes. Raises NoRoom and OSError; then `settle`
        takes it back."""
        self._sizes.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.set(mark, size)
        if shutil.disk_usage(self._folder).free - _COPIES * size < room.reserve:
            raise NoRoom(room.of_all, is_own=False)
        own, total = self._add_up(mark[1])
        if own > room.of_one or total > room.of_all:
            self._remove_strays()
            own, total = self._add_up(mark[1])
        if own > room.of_one:
            raise NoRoom(room.of_one, is_own=True)
        if total > room.of_all:
            raise NoRoom(room.of_all, is_own=False)

    def set(self, mark: Sequence[str], size: int) -> None:
        """Says how large an upload is. Raises OSError."""
        with self._find(mark).open("ab") as file:
            file.truncate(max(_LEAST_BYTES, _COPIES * size))

    def settle(self, mark: Sequence[str], kept: Path) -> None:
        """Counts what is in a document's folder, nothing where there is none. On a full disk
        it counts what it did before."""
        with suppress(OSError):
            if kept.exists():
                self.set(mark, sum(map(_measure, os.scandir(kept))) // _COPIES)
            else:
                self._find(mark).unlink(missing_ok=True)

    def _add_up(self, caller: str) -> tuple[int, int]:
        own = total = 0
        for entry in self._list():
            size = _measure(entry)
            total += size
            own += size if entry.name.split("~")[1] == caller else 0
        return own, total

    def _remove_strays(self) -> None:
        for entry in self._list():
            owner, _, document_id = entry.name.split("~")
            places = ("kept", owner, document_id), ("incoming", document_id)
            is_there = any(self._folder.joinpath(*place).exists() for place in places)
            with suppress(FileNotFoundError):
                if not is_there and time.time() - entry.stat().st_mtime > _STRAY_S:
                    os.unlink(entry)

    def _find(self, mark: Sequence[str]) -> Path:
        return self._sizes / "~".join(mark)

    def _list(self) -> Iterator[os.DirEntry[str]]:
        found = os.scandir(self._sizes)
        return (entry for entry in found if entry.name.count("~") == len("~~"))


def _measure(entry: os.DirEntry[str]) -> int:
    """A file's bytes; it may be gone."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0
