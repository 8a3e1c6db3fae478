"""Splits a text into sentences to translate and the pieces between them, and joins the
translated pieces again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway.text import markup, segmentation
from gateway.text.placeholders import Mark, Role, fill, find_protected, mask
from gateway.text.segmentation import Part


@dataclass(frozen=True)
class Format:
    """How text stands in a document: `read` is for the model, `write` for the client."""

    read: Callable[[str], str] = str
    write: Callable[[str], str] = str


PLAIN = Format()
_LETTER = re.compile(r"[^\W_]")
#: In HTML a line break is a space.
HTML = Format(lambda text: re.sub(r"[\t\n\r\f]", " ", text), markup.escape)


@dataclass(frozen=True)
class Sentence:
    """Something to translate, with the marks that stay in it.

    It begins at character `start` of the client's text, of which HTML's tags are no part.
    `is_torn` where it has been cut out of a sentence that was too long.
    """

    text: str
    start: int
    marks: tuple[Mark, ...] = ()
    is_torn: bool = False

    @property
    def masked(self) -> str:
        """What the model gets."""
        return mask(self.text, self.marks)


#: A model loses one of more marks than that; the sentence is taken apart at once.
MAX_MARKS = 100

Piece = str | Sentence


@dataclass(frozen=True)
class Document:
    """The pieces of a text."""

    pieces: tuple[Piece, ...]
    format: Format

    @property
    def sentences(self) -> list[Sentence]:
        """What there is to translate, in order."""
        return [piece for piece in self.pieces if isinstance(piece, Sentence)]

    def render(self, translations: Iterable[str]) -> str:
        """The document with its sentences replaced."""
        given = iter(translations)
        return "".join(
            piece if isinstance(piece, str) else next(given) for piece in self.pieces
        )


def read_text(text: str, language: str, *, is_protected: bool) -> Document:
    """Plain text in `language`."""
    return Document(tuple(scan_text(text, language, is_protected)), PLAIN)


def read_html(source: str, language: str, *, is_protected: bool) -> Document:
    """An HTML document or fragment in `language`."""
    return Document(tuple(scan_html(source, language, is_protected)), HTML)


def scan_text(text: str, language: str, is_protected: bool) -> Iterator[Piece]:
    """The pieces of plain text, one after the other."""
    marks = find_protected(text) if is_protected else []
    parts = segmentation.segment(text, language, _spans(marks))
    return _cut(text, marks, parts)


def scan_html(source: str, language: str, is_protected: bool) -> Iterator[Piece]:
    """The pieces of an HTML document or fragment, one after the other."""
    start = 0
    for run in markup.parse(source):
        if run.is_markup:
            yield run.text
            continue
        text = HTML.read(run.text)
        found = find_protected(text) if is_protected else []
        marks = _merge(
            run.marks, [mark._replace(shown=HTML.write(mark.shown)) for mark in found]
        )
        parts = segmentation.segment(text, language, _spans(marks))
        yield from _cut(run.text, marks, parts, start=start, format=HTML)
        start += len(text)


def divide(sentence: Sentence, max_characters: int, format: Format) -> Document:
    """A sentence that is too long for the model, in parts of at most `max_characters`."""
    parts = segmentation.split(sentence.text, max_characters, _spans(sentence.marks))
    cut = _cut(
        sentence.text, sentence.marks, parts, start=sentence.start, format=format
    )
    return Document(tuple(cut), format)


def take_apart(sentence: Sentence, format: Format) -> Document:
    """A sentence whose marks the model does not keep: what is between them is translated
    by itself, so that every mark stays where it is."""
    pieces: list[Piece] = []
    end = 0
    for mark in (*sentence.marks, Mark(len(sentence.text), len(sentence.text), "")):
        gap = Part(end, mark.start, is_sentence=True, is_torn=sentence.is_torn)
        pieces += _cut(sentence.text, (), [gap], start=sentence.start, format=format)
        pieces.append(mark.shown)
        end = mark.end
    return Document(tuple(pieces), format)


def _spans(marks: Iterable[Mark]) -> list[tuple[int, int]]:
    return [(mark.start, mark.end) for mark in marks]


def _merge(tags: Sequence[Mark], found: Iterable[Mark]) -> list[Mark]:
    """All marks in order; what a tag divides is not protected."""
    places = [tag.start for tag in tags]
    whole = [
        mark
        for mark in found
        if bisect_right(places, mark.start) == bisect_right(places, mark.end - 1)
    ]
    return sorted([*tags, *whole], key=lambda mark: (mark.start, mark.end))


def _cut(
    text: str,
    marks: Iterable[Mark],
    parts: Iterable[Part],
    *,
    start: int = 0,
    format: Format = PLAIN,
) -> Iterator[Piece]:
    """The pieces of a text that begins at character `start` of the client's."""
    rest = deque(marks)
    for part in parts:
        own = [mark.moved(part.start) for mark in _take(rest, part.end)]
        found = text[part.start : part.end]
        core = _find_core(found, own) if part.is_sentence else None
        if core is None:
            yield _show(found, own, format)
            continue
        yield _show(found[: core.start], own[: core.first], format)
        inner = [mark.moved(core.start) for mark in own[core.first : core.last]]
        sentence = Sentence(
            format.read(found[core.start : core.end]),
            start + part.start + core.start,
            tuple(inner),
            part.is_torn,
        )
        if len(inner) > MAX_MARKS:
            yield from take_apart(sentence, format).pieces
        else:
            yield sentence
        after = [mark.moved(core.end) for mark in own[core.last :]]
        yield _show(found[core.end :], after, format)
    if rest:
        yield "".join(mark.shown for mark in rest)


def _take(rest: deque[Mark], end: int) -> Iterator[Mark]:
    """The marks up to `end`. Between two parts, a closing tag belongs to the first,
    all others to the second."""
    while rest and (
        rest[0].end < end
        or (
            rest[0].end == end and (rest[0].start < end or rest[0].role is Role.CLOSING)
        )
    ):
        yield rest.popleft()


def _show(text: str, marks: Sequence[Mark], format: Format) -> str:
    return fill(text, marks, [mark.shown for mark in marks], format.write)


@dataclass(frozen=True)
class _Core:
    """What the model has to see of a sentence: these characters and these of its marks."""

    start: int
    end: int
    first: int
    last: int


def _find_core(text: str, marks: Sequence[Mark]) -> _Core | None:
    """The sentence without what can stand outside it: tags round the whole of it, and
    what is loose at an edge. None where only marks are left."""
    ends = [0, *(mark.end for mark in marks)]
    starts = [*(mark.start for mark in marks), len(text)]
    #: Whether there are words before each mark, and after the last.
    has_words = [
        _LETTER.search(text, end, start) is not None
        for end, start in zip(ends, starts, strict=True)
    ]
    first, last = 0, len(marks)
    while first < last:
        head, tail = marks[first].role, marks[last - 1].role
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
