"""The translations of a document so far, in a file that survives a kill: a line each, in the
order of the texts or their pieces, with a checksum of the piece.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from contract import durable
from documents.division import TextPiece


class Entry(NamedTuple):
    """A line."""

    checksum: int
    translation: TextPiece


class DocumentJournal:
    """Appends translations. Only one program at a time may have it open."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        self._log = durable.AppendLog(path)

    def close(self) -> None:
        """Gives the file back."""
        self._log.close()

    def resume(self, pieces: Iterator[TextPiece]) -> tuple[int, Iterator[TextPiece]]:
        """Return the number of texts with a translation, and the pieces without one. Lines
        that are torn or belong to other pieces are dropped, with all that follow."""
        count, end = 0, 0
        pending: list[TextPiece] = []
        with self._path.open("rb") as file:
            for line in file:
                entry = _parse(line)
                piece = next(pieces, None) if entry else None
                if entry is None or piece is None:
                    break
                if (entry.checksum, entry.translation.gap) != (_sum(piece), piece.gap):
                    pending = [piece]
                    break
                count, end = count + (piece.gap is None), end + len(line)
        self._log.truncate(end)
        return count, chain(pending, pieces)

    def append(self, pieces: Iterable[TextPiece], translations: Iterable[str]) -> None:
        """Writes translations before it returns, all or none. Raises OSError."""
        lines = "".join(
            json.dumps(_write_entry(piece, translation), ensure_ascii=False) + "\n"
            for piece, translation in zip(pieces, translations, strict=True)
        ).encode("utf-8", "surrogatepass")
        self._log.append(lines)


def read_journal(path: Path) -> Iterator[TextPiece]:
    """All translations, in order. Raises OSError."""
    with path.open("rb") as file:
        for line in file:
            entry = _parse(line)
            if entry is None:
                return
            yield entry.translation


def _write_entry(piece: TextPiece, translation: str) -> list[int | str]:
    whole: list[int | str] = [_sum(piece), translation]
    return whole if piece.gap is None else [*whole, piece.gap]


def _sum(piece: TextPiece) -> int:
    return zlib.crc32(piece.text.encode("utf-8", "surrogatepass"))


def _parse(line: bytes) -> Entry | None:
    """The entry of a whole line."""
    try:
        match json.loads(line) if line.endswith(b"\n") else None:
            case [int(checksum), str(translation)]:
                return Entry(checksum, TextPiece(translation))
            case [int(checksum), str(translation), str(gap)]:
                return Entry(checksum, TextPiece(translation, gap))
    except ValueError:
        pass
    return None
