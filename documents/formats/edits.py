"""A document as places where something else is written. Everything between them stays as it
is, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from documents.errors import LostMarkup
from documents.formats.encoding import MAX_BYTES, read_text, write_text
from documents.formats.format import Format, LanguagePair, Markup


def _never(target: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `start` to `end` of a document, and the texts that are translated there."""

    start: int
    end: int
    texts: tuple[str, ...]
    #: Returns the replacement, from the texts' translations.
    write: Callable[[Sequence[str], LanguagePair], str]
    #: Whether the characters stay where all translations are like the texts. It is not so
    #: where the texts are read from another place.
    is_in_place: bool = True
    #: Whether a translation into the target language is there already, and stays.
    is_done: Callable[[str], bool] = _never


#: Finds the places of a document, in order.
FindEdits = Callable[[str], Iterable[Edit]]


def replace(
    content: str, start: int, end: int, escape: Callable[[str], str] = str
) -> Iterator[Edit]:
    """The edit of a stretch of plain text, without the white space around it. A text without
    letters has none."""
    raw = content[start:end]
    text = raw.strip()
    if has_letter(text):
        start += raw.index(text)
        yield Edit(start, start + len(text), (text,), lambda new, _: escape(new[0]))


def has_letter(text: str) -> bool:
    """Whether a text has anything to translate."""
    return any(map(str.isalpha, text))


def make_format(
    suffixes: tuple[str, ...],
    media_type: str,
    markup: Markup,
    find_edits: FindEdits,
    *,
    declaration: re.Pattern[bytes] | None = None,
    errors: str = "strict",
    max_bytes: int = MAX_BYTES,
) -> Format:
    """The format of documents that are read as a whole.

    `declaration` finds a file's encoding; `errors` is how characters are written that it
    lacks, by the name of Python's error handler.
    """

    def read(path: Path, target: str) -> Iterator[str]:
        content, _ = read_text(path, declaration, max_bytes=max_bytes)
        for edit in find_edits(content):
            if not edit.is_done(target):
                yield from edit.texts

    def write(
        source: Path, translations: Iterator[str], target: Path, languages: LanguagePair
    ) -> None:
        content, encoding = read_text(source, declaration, max_bytes=max_bytes)
        parts = splice(content, find_edits(content), translations, languages)
        write_text(check_end(parts, translations), target, encoding, errors)

    return Format(suffixes, media_type, markup, read, write)


def splice(
    content: str,
    edits: Iterable[Edit],
    translations: Iterator[str],
    languages: LanguagePair,
) -> Iterator[str]:
    """The parts of a document with its translations. Raises LostMarkup if there are fewer of
    them than texts."""
    place = 0
    for edit in edits:
        if edit.is_done(languages.target):
            continue
        yield content[place : edit.start]
        new = [take(translations) for _ in edit.texts]
        is_same = edit.is_in_place and bool(new) and tuple(new) == edit.texts
        yield content[edit.start : edit.end] if is_same else edit.write(new, languages)
        place = edit.end
    yield content[place:]


def take(translations: Iterator[str]) -> str:
    """The next translation. Raises LostMarkup if there is none."""
    translation = next(translations, None)
    if translation is None:
        raise LostMarkup("The document has more texts than translations")
    return translation


def check_end(parts: Iterable[str], translations: Iterator[str]) -> Iterator[str]:
    """All parts. Raises LostMarkup if a translation is left after them."""
    yield from parts
    if next(translations, None) is not None:
        raise LostMarkup("The document has fewer texts than translations")
