"""Divides a text that is too long for one request between sentences, where the gateway would
divide it, and joins the translations as the gateway would join them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from contract.markup import scan
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
    single sentence, or elements that cannot be divided."""
    if len(text) <= most_characters:
        return [TextPiece(text)]
    whole = _find_elements(text) if markup == "xml" else ()
    pieces: list[TextPiece] = []
    start = end = 0
    for part in segment(text, language or _LANGUAGE, whole):
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
