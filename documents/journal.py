"""The translations of a document so far, in a file that survives a kill: a line each, in the
order of the texts, with a checksum of the text.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

#: After so long at most, lines are on the disk itself and survive a power cut.
_SYNC_EVERY_S = 1.0


class Entry(NamedTuple):
    """A line."""

    checksum: int
    translation: str


class Journal:
    """Appends translations. Only one program at a time may have it open."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        # Without a buffer, so that a line has left the process when it is written.
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Gives the file back."""
        self._file.close()

    def resume(self, texts: Iterator[str]) -> tuple[int, Iterator[str]]:
        """How many of the texts have a translation, and the others. Lines that are torn or
        belong to other texts are dropped, with all that follow."""
        count, end = 0, 0
        pending: list[str] = []
        with self._path.open("rb") as file:
            for line in file:
                entry = _parse(line)
                text = next(texts, None) if entry else None
                if entry is None or text is None:
                    break
                if entry.checksum != _sum(text):
                    pending = [text]
                    break
                count, end = count + 1, end + len(line)
        self._file.truncate(end)
        return count, chain(pending, texts)

    def append(self, texts: Iterable[str], translations: Iterable[str]) -> None:
        """Writes translations before it returns, all or none. Raises OSError."""
        lines = "".join(
            json.dumps([_sum(text), translation], ensure_ascii=False) + "\n"
            for text, translation in zip(texts, translations, strict=True)
        ).encode("utf-8", "surrogatepass")
        end = self._file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[self._file.write(rest) :]
            if time.monotonic() - self._synced_at > _SYNC_EVERY_S:
                os.fdatasync(self._file.fileno())
                self._synced_at = time.monotonic()
        except OSError:
            with suppress(OSError):
                self._file.truncate(end)
            raise

    def read(self) -> Iterator[str]:
        """All translations, in order."""
        with self._path.open("rb") as file:
            for line in file:
                entry = _parse(line)
                if entry is None:
                    return
                yield entry.translation


def _sum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _parse(line: bytes) -> Entry | None:
    """The entry of a whole line."""
    try:
        match json.loads(line) if line.endswith(b"\n") else None:
            case [int(checksum), str(translation)]:
                return Entry(checksum, translation)
    except ValueError:
        pass
    return None
