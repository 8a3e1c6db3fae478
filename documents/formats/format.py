"""The interface of a format: a document as texts in order, and the same document with other
texts. Everything else in the file stays. Formats that are read as a whole are edits: places
where something else is written, and between them all stays byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from documents.errors import LostMarkup
from documents.formats.encoding import MAX_BYTES, find_encoding, read_text, write_text

#: The markup of a format's texts. In "xml", a text is a fragment: a bold word of a
#: sentence is `<g id="1">word</g>`, and what has no text (an image, a line break, a
#: field) is `<x id="2"/>`. The translation has the same elements, each once, perhaps in
#: another order.
Markup: TypeAlias = Literal["text", "xml"]


@dataclass(frozen=True)
class LanguagePair:
    """The languages of a translation: codes of ours. `source` is None if it is identified."""

    source: str | None
    target: str


@dataclass(frozen=True)
class Format:
    """A file format. Both functions raise DocumentError, and read the file again; neither holds
    more of it in memory than its format forces it to."""

    #: Endings of file names, with their dots, in lower case.
    suffixes: tuple[str, ...]
    #: The media type of the result.
    media_type: str
    markup: Markup
    #: read(source, target): the texts of the file that are missing in the target language, in
    #: a fixed order. A text has a letter.
    read: Callable[[Path, str], Iterator[str]]
    #: write(source, translations, target, languages): writes `target`, which does not exist.
    #: `translations` has one for each text of `read`, in its order.
    write: Callable[[Path, Iterator[str], Path, LanguagePair], None]


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
#: Finds the parts of a file, each with its edits.
FindParts = Callable[[Path], Iterator[tuple[str, Iterable[Edit]]]]


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

    def find_parts(path: Path) -> Iterator[tuple[str, Iterable[Edit]]]:
        content = read_text(path, declaration, max_bytes=max_bytes)
        yield content, find_edits(content)

    return make_stream_format(
        suffixes, media_type, markup, find_parts, declaration=declaration, errors=errors
    )


def make_stream_format(
    suffixes: tuple[str, ...],
    media_type: str,
    markup: Markup,
    find_parts: FindParts,
    *,
    declaration: re.Pattern[bytes] | None = None,
    errors: str = "strict",
) -> Format:
    """The format of documents that are read part by part."""

    def read(path: Path, target: str) -> Iterator[str]:
        for _, edits in find_parts(path):
            for edit in edits:
                if not edit.is_done(target):
                    yield from edit.texts

    def write(
        source: Path, translations: Iterator[str], target: Path, languages: LanguagePair
    ) -> None:
        parts = (
            piece
            for content, edits in find_parts(source)
            for piece in splice(content, edits, translations, languages)
        )
        encoding = find_encoding(source, declaration)
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
    check_none_left(translations)


def check_none_left(translations: Iterator[str]) -> None:
    """Raises LostMarkup if a translation is left."""
    if next(translations, None) is not None:
        raise LostMarkup("The document has fewer texts than translations")
