"""Splits a text into sentences to translate and the pieces between them, and joins the
translated pieces again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway.schemas import HTML_TAGS, Splitting, Tags
from gateway.text import markup, outline, segmentation
from gateway.text.placeholders import (
    Placeholder,
    Role,
    fill,
    find_protected,
    substitute,
)
from gateway.text.segmentation import Part


@dataclass(frozen=True)
class Format:
    """How a document writes text: `read` prepares it for the model, `write` for the client."""

    read: Callable[[str], str] = str
    write: Callable[[str], str] = str


_LETTER = re.compile(r"[^\W_]")
_BREAK = re.compile(r"[\t\n\r\f]")


def _flow(text: str) -> str:
    """The text with its line breaks as spaces."""
    return _BREAK.sub(" ", text)


PLAIN = Format()
#: A text whose line breaks mean nothing.
FLOWING = Format(_flow)
HTML = Format(_flow, markup.escape)
XML = Format(_flow, outline.escape)


@dataclass(frozen=True)
class Segment:
    """Text to translate, and the placeholders in it.

    It begins at character `start` of the client's text, not counting HTML tags. `is_torn` if
    it was cut out of a sentence that was too long.
    """

    text: str
    start: int
    placeholders: tuple[Placeholder, ...] = ()
    is_torn: bool = False

    @property
    def prepared(self) -> str:
        """The text as the model gets it."""
        return substitute(self.text, self.placeholders)


#: With more placeholders a model loses one, so such a sentence is taken apart at once.
MAX_PLACEHOLDERS = 100

Piece = str | Segment


@dataclass(frozen=True)
class Document:
    """The pieces of a text."""

    pieces: tuple[Piece, ...]
    format: Format

    @property
    def segments(self) -> list[Segment]:
        """The sentences to translate, in order."""
        return [piece for piece in self.pieces if isinstance(piece, Segment)]

    def render(self, translations: Iterable[str]) -> str:
        """The document with its sentences replaced."""
        given = iter(translations)
        return "".join(
            piece if isinstance(piece, str) else next(given) for piece in self.pieces
        )


def find_format(tags: Tags | None, splitting: Splitting) -> Format:
    """How such a document writes text."""
    if tags:
        return XML if tags.is_xml else HTML
    return PLAIN if splitting == "lines" else FLOWING


def read_text(text: str, language: str, *, is_protected: bool) -> Document:
    """Plain text in `language`."""
    return Document(tuple(scan_text(text, language, is_protected)), PLAIN)


def read_html(source: str, language: str, *, is_protected: bool) -> Document:
    """An HTML document or fragment in `language`."""
    pieces = scan_tagged(source, language, is_protected, tags=HTML_TAGS)
    return Document(tuple(pieces), HTML)


def scan_text(
    text: str, language: str, is_protected: bool, splitting: Splitting = "lines"
) -> Iterator[Piece]:
    """The pieces of plain text, one after the other."""
    format = find_format(None, splitting)
    shown = format.read(text)
    placeholders = find_protected(shown) if is_protected else []
    parts = _segment(shown, language, placeholders, splitting)
    return _cut(text, placeholders, parts, format=format)


def scan_tagged(
    source: str,
    language: str,
    is_protected: bool,
    *,
    tags: Tags,
    splitting: Splitting = "sentences",
) -> Iterator[Piece]:
    """The pieces of an HTML or XML document or fragment, one after the other."""
    start, format = 0, find_format(tags, splitting)
    parse = outline.parse if tags.is_xml else markup.parse
    for run in parse(source, tags):
        if run.is_markup:
            yield run.text
            continue
        text = run.text if splitting == "lines" else format.read(run.text)
        found = find_protected(text) if is_protected else []
        placeholders = _merge(
            run.placeholders,
            [p._replace(shown=format.write(p.shown)) for p in found],
        )
        parts = _segment(text, language, placeholders, splitting)
        yield from _cut(run.text, placeholders, parts, start=start, format=format)
        start += len(text)


def _segment(
    text: str,
    language: str,
    placeholders: Iterable[Placeholder],
    splitting: Splitting,
) -> Iterable[Part]:
    spans = _spans(placeholders)
    if splitting == "none":
        return segmentation.split(text, segmentation.MAX_CHARACTERS, spans)
    return segmentation.segment(text, language, spans)


def divide(segment: Segment, max_characters: int, format: Format) -> Document:
    """A sentence that is too long for the model, in parts of at most `max_characters`."""
    parts = segmentation.split(
        segment.text, max_characters, _spans(segment.placeholders)
    )
    cut = _cut(
        segment.text, segment.placeholders, parts, start=segment.start, format=format
    )
    return Document(tuple(cut), format)


def take_apart(segment: Segment, format: Format) -> Document:
    """A sentence whose placeholders the model loses: the text between them is translated by
    itself, so every placeholder stays where it is."""
    pieces: list[Piece] = []
    end = 0
    for placeholder in (
        *segment.placeholders,
        Placeholder(len(segment.text), len(segment.text), ""),
    ):
        gap = Part(end, placeholder.start, is_sentence=True, is_torn=segment.is_torn)
        pieces += _cut(segment.text, (), [gap], start=segment.start, format=format)
        pieces.append(placeholder.shown)
        end = placeholder.end
    return Document(tuple(pieces), format)


def _spans(placeholders: Iterable[Placeholder]) -> list[tuple[int, int]]:
    return [(p.start, p.end) for p in placeholders]


def _merge(
    tags: Sequence[Placeholder], found: Iterable[Placeholder]
) -> list[Placeholder]:
    """All placeholders in order; what a tag divides is not protected."""
    places = [tag.start for tag in tags]
    whole = [
        p
        for p in found
        if bisect_right(places, p.start) == bisect_right(places, p.end - 1)
    ]
    return sorted([*tags, *whole], key=lambda p: (p.start, p.end))


def _cut(
    text: str,
    placeholders: Iterable[Placeholder],
    parts: Iterable[Part],
    *,
    start: int = 0,
    format: Format = PLAIN,
) -> Iterator[Piece]:
    """The pieces of a text that begins at character `start` of the client's."""
    rest = deque(placeholders)
    for part in parts:
        own = [p.moved(part.start) for p in _take(rest, part.end)]
        found = text[part.start : part.end]
        core = _find_core(found, own) if part.is_sentence else None
        if core is None:
            yield _show(found, own, format)
            continue
        yield _show(found[: core.start], own[: core.first], format)
        inner = [p.moved(core.start) for p in own[core.first : core.last]]
        segment = Segment(
            format.read(found[core.start : core.end]),
            start + part.start + core.start,
            tuple(inner),
            part.is_torn,
        )
        if len(inner) > MAX_PLACEHOLDERS:
            yield from take_apart(segment, format).pieces
        else:
            yield segment
        after = [p.moved(core.end) for p in own[core.last :]]
        yield _show(found[core.end :], after, format)
    if rest:
        yield "".join(p.shown for p in rest)


def _take(rest: deque[Placeholder], end: int) -> Iterator[Placeholder]:
    """The placeholders up to `end`. Between two parts, a closing tag belongs to the first and
    any other placeholder to the second."""
    while rest and (
        rest[0].end < end
        or (
            rest[0].end == end and (rest[0].start < end or rest[0].role is Role.CLOSING)
        )
    ):
        yield rest.popleft()


def _show(text: str, placeholders: Sequence[Placeholder], format: Format) -> str:
    return fill(
        text,
        placeholders,
        [p.shown for p in placeholders],
        format.write,
    )


@dataclass(frozen=True)
class _Core:
    """The characters and placeholders of a sentence that the model must see."""

    start: int
    end: int
    first: int
    last: int


def _find_core(text: str, placeholders: Sequence[Placeholder]) -> _Core | None:
    """The sentence without what can stay outside: tags around all of it, and loose
    placeholders at its edges. None if only placeholders are left."""
    ends = [0, *(p.end for p in placeholders)]
    starts = [*(p.start for p in placeholders), len(text)]
    #: Whether there are words before each placeholder, and after the last.
    has_words = [
        _LETTER.search(text, end, start) is not None
        for end, start in zip(ends, starts, strict=True)
    ]
    first, last = 0, len(placeholders)
    while first < last:
        head, tail = placeholders[first].role, placeholders[last - 1].role
        is_at_start, is_at_end = not has_words[first], not has_words[last]
        is_wrapped = (head, tail) == (Role.OPENING, Role.CLOSING)
        if is_at_start and is_at_end and is_wrapped:
            first, last = first + 1, last - 1
        elif is_at_start and head is Role.LOOSE:
            first += 1
        elif is_at_end and tail is Role.LOOSE:
            last -= 1
        else:
            break
    if not any(has_words[first : last + 1]):
        return None
    start, end = ends[first], starts[last]
    start += _count_spaces(text[start : starts[first]])
    end -= _count_spaces(text[max(start, ends[last]) : end][::-1])
    return _Core(start, end, first, last)


def _count_spaces(text: str) -> int:
    """White space at the beginning."""
    return len(text) - len(text.lstrip())
