"""Texts in pieces: a text that is too long for one request is divided between sentences, where
the gateway would divide it, and the translations are joined as the gateway would join them. The
translations of a document so far are in a file that survives a kill: a line each, in the order
of the texts or their pieces, with a checksum of the piece.
"""

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from contract import durable
from contract.languages import normalize_language
from contract.markup import scan
from text.messages import read_message
from text.segmentation import segment
from text.spacing import compare, find_separator, separate

#: For a text whose language nobody knows.
_LANGUAGE = "en"


class TextPiece(NamedTuple):
    """A text or a part of one, or its translation."""

    text: str
    #: The text between it and the next piece of the same text; None behind the last
    #: one.
    gap: str | None = None


def divide(
    text: str, language: str | None, markup: str, most_characters: int
) -> list[TextPiece]:
    """A text in pieces of sentences. A piece has more than `most_characters` only if it is a
    single sentence, a message, or elements that cannot be divided."""
    if len(text) <= most_characters or read_message(text):
        return [TextPiece(text)]
    whole = _find_elements(text) if markup == "xml" else ()
    pieces: list[TextPiece] = []
    start = end = 0
    for part in segment(text, normalize_language(language or _LANGUAGE), whole):
        if not part.is_sentence:
            continue
        if end > start and part.end - start > most_characters:
            pieces.append(TextPiece(text[start:end], text[end : part.start]))
            start = part.start
        end = part.end
    return [*pieces, TextPiece(text[start:])]


def join(pieces: Iterable[TextPiece], source: str | None, target: str) -> Iterator[str]:
    """The translations of texts from those of their pieces."""
    spacing = compare(source or "", target)
    parts: list[str] = []
    gap = ""
    for piece in pieces:
        if parts:
            found = find_separator(gap, spacing)
            if not isinstance(found, str):
                found = separate(parts[-1], gap, piece.text, spacing)
            parts.append(found)
        parts.append(piece.text)
        gap = piece.gap or ""
        if piece.gap is None:
            yield "".join(parts)
            parts = []


def _find_elements(text: str) -> Iterator[tuple[int, int]]:
    """The starts and ends of elements that are in no other one."""
    start = end = depth = 0
    for token in scan(text, is_xml=True):
        start = start if depth else end
        end += len(token.raw)
        if token.name and not token.is_empty:
            depth += 1 if token.is_start else -1
        if not depth and not token.is_text:
            yield start, end


class DocumentJournal(durable.AppendLog):
    """A log of translations."""

    def resume(self, pieces: Iterator[TextPiece]) -> tuple[int, Iterator[TextPiece]]:
        """Return the number of texts with a translation, and the pieces without one. Lines
        that are torn or belong to other pieces are dropped, with all that follow."""
        count, end = 0, 0
        pending: list[TextPiece] = []
        for line_end, content in durable.read_lines(Path(self._file.name)):
            found = _read_entry(content)
            piece = next(pieces, None) if found else None
            if found is None or piece is None:
                break
            checksum, translation = found
            if (checksum, translation.gap) != (_sum(piece), piece.gap):
                pending = [piece]
                break
            count, end = count + (piece.gap is None), line_end
        self.truncate(end)
        return count, chain(pending, pieces)

    def add(self, pieces: Iterable[TextPiece], translations: Iterable[str]) -> None:
        """Writes translations before it returns, all or none. Raises OSError."""
        pairs = zip(pieces, translations, strict=True)
        self.append_lines(
            [_sum(piece), text, *([] if piece.gap is None else [piece.gap])]
            for piece, text in pairs
        )


def read_journal(path: Path) -> Iterator[TextPiece]:
    """All translations, in order. Raises OSError."""
    for _, content in durable.read_lines(path):
        found = _read_entry(content)
        if found is None:
            return
        yield found[1]


def _read_entry(content: Any) -> tuple[int, TextPiece] | None:
    match content:
        case [int(checksum), str(translation)]:
            return checksum, TextPiece(translation)
        case [int(checksum), str(translation), str(gap)]:
            return checksum, TextPiece(translation, gap)
    return None


def _sum(piece: TextPiece) -> int:
    return zlib.crc32(piece.text.encode("utf-8", "surrogatepass"))
