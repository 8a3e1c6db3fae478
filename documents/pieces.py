"""Pieces of texts: a text too long for one request is split between sentences, where the
gateway would split it, and the translations are joined as the gateway would join them. A
journal that survives a kill has a line per translation, in order, with the piece's checksum.
"""

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from contract import durable
from contract.languages import normalize_language
from contract.markup import scan
from text.messages import read_message
from text.segmentation import segment
from text.spacing import compare, find_separator, separate

#: For texts in an unknown language.
_LANGUAGE = "en"


class TextPiece(NamedTuple):
    """A text, a part of one, or its translation."""

    text: str
    #: The text between this piece and the next one of the same text; None after the last.
    gap: str | None = None


def divide(
    text: str, language: str | None, markup: str, most_characters: int
) -> list[TextPiece]:
    """Split a text between sentences. A piece has more than `most_characters` only if it is a
    single sentence, a message, or elements that cannot be split."""
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
    """Yield the translations of texts, joined from those of their pieces."""
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
    """Yield the starts and ends of the outermost elements."""
    start = end = depth = 0
    for token in scan(text, is_xml=True):
        start = start if depth else end
        end += len(token.raw)
        if token.name and not token.is_empty:
            depth += 1 if token.is_start else -1
        if not depth and not token.is_text:
            yield start, end


class DocumentJournal(durable.AppendLog):
    """An append-only log of a document's translations."""

    def resume(self, pieces: Iterator[TextPiece]) -> tuple[int, Iterator[TextPiece]]:
        """Return the number of translated texts, and the untranslated pieces. Lines are dropped
        from the first that is torn or belongs to another piece."""
        count, end = 0, 0
        pending: list[TextPiece] = []
        for line_end, content in durable.read_lines(Path(self._file.name)):
            pending = [*islice(pieces, 1)]
            match content, pending:
                case [crc, str(), *gap], [piece] if [crc, *gap] == _mark(piece):
                    count += piece.gap is None
                    end = line_end
                    pending = []
                case _:
                    break
        self.truncate(end)
        return count, chain(pending, pieces)

    def add(self, pieces: Iterable[TextPiece], translations: Iterable[str]) -> None:
        """Write all translations or none before returning. Raises OSError."""
        marks = map(_mark, pieces)
        self.append_lines(
            [crc, text, *gap]
            for (crc, *gap), text in zip(marks, translations, strict=True)
        )


def read_journal(path: Path) -> Iterator[TextPiece]:
    """Yield all translations of a resumed journal, in order. Raises OSError."""
    for _, (_, *translation) in durable.read_lines(path):
        yield TextPiece(*translation)


def _mark(piece: TextPiece) -> list[int | str]:
    """Return the checksum of a piece, and its gap if it has one."""
    checksum = zlib.crc32(piece.text.encode("utf-8", "surrogatepass"))
    return [checksum] if piece.gap is None else [checksum, piece.gap]
