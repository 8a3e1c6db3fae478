"""The translations of a document so far, in a file that survives a kill: a line each, in the
order of the texts or their pieces, with a checksum of the piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from contract import durable
from documents.division import TextPiece


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
        for line_end, content in durable.read_lines(self._path):
            found = _read_entry(content)
            piece = next(pieces, None) if found else None
            if found is None or piece is None:
                break
            checksum, translation = found
            if (checksum, translation.gap) != (_sum(piece), piece.gap):
                pending = [piece]
                break
            count, end = count + (piece.gap is None), line_end
        self._log.truncate(end)
        return count, chain(pending, pieces)

    def append(self, pieces: Iterable[TextPiece], translations: Iterable[str]) -> None:
        """Writes translations before it returns, all or none. Raises OSError."""
        pairs = zip(pieces, translations, strict=True)
        self._log.append_lines([_write_entry(*pair) for pair in pairs])


def read_journal(path: Path) -> Iterator[TextPiece]:
    """All translations, in order. Raises OSError."""
    for _, content in durable.read_lines(path):
        found = _read_entry(content)
        if found is None:
            return
        yield found[1]


def _write_entry(piece: TextPiece, translation: str) -> list[int | str]:
    whole: list[int | str] = [_sum(piece), translation]
    return whole if piece.gap is None else [*whole, piece.gap]


def _read_entry(content: Any) -> tuple[int, TextPiece] | None:
    """The checksum of a piece, and its translation."""
    match content:
        case [int(checksum), str(translation)]:
            return checksum, TextPiece(translation)
        case [int(checksum), str(translation), str(gap)]:
            return checksum, TextPiece(translation, gap)
    return None


def _sum(piece: TextPiece) -> int:
    return zlib.crc32(piece.text.encode("utf-8", "surrogatepass"))
