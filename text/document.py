"""Splits texts into sentences and the pieces between them, and joins their translations."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from uuid import uuid4

import regex

from text import markup_runs, messages, orthography, segmentation, spacing
from text.errors import TooManySentences
from text.markup_runs import Run
from text.messages import IcuMessage, MessagePlace, Quoting, Stretch
from text.options import Splitting, Tags
from text.placeholders import (
    Placeholder,
    Role,
    fill,
    find_lone,
    find_protected,
    merge_tags,
    substitute,
)
from text.segmentation import Part
from text.spacing import EDGE, Separator, Spacing, compare
from text.terms import Choice, TermCache, Terms, combine, find_terms


@dataclass(frozen=True)
class TextFormat:
    """The form of text in a document: `read` prepares it for the model, `write` for the client,
    and `show` returns its visible part."""

    read: Callable[[str], str] = str
    write: Callable[[str], str] = str
    show: Callable[[str], str] = str
    spacing: Spacing = Spacing.KEEP


#: More formats than a stack uses at a time.
_FORMATS = 1024
_LETTER = re.compile(r"[^\W_]")
#: A sentence without a mark inside that may end one. Most texts match, and if they are short
#: and contain nothing protected, they need no scanning.
_SENTENCE = regex.compile(
    r"(?! |\(?[a-zA-Z]\) )[\p{Nd} ¿¡(\"“„«]*+\p{L}"
    r"[\p{L}\p{M}\p{Nd} ,()/%&+\"'’“”„«»–—-]*+[.!?。！？।؟]?(?<! )"
)
_SHORT = 200
_BREAK = re.compile(r"[\t\n\v\f\r\u2028\u2029]")


def _flow(text: str) -> str:
    """Replace line breaks with spaces."""
    return _BREAK.sub(" ", text)


PLAIN = TextFormat()
#: A text whose line breaks have no meaning.
FLOWING = TextFormat(_flow)
HTML = TextFormat(_flow, markup_runs.escape_html, markup_runs.show)
XML = TextFormat(_flow, markup_runs.escape_xml, markup_runs.show)


@dataclass(frozen=True)
class Segment:
    """Text to translate, and the placeholders in it.

    It begins at character `start` of the client's text, not counting HTML tags. `is_torn` means
    that it is part of a sentence that was too long, and `is_in_capitals` that it is part of a
    text in capitals. With a `quoting` it is part of a message. `tags` are before its final
    marks, as in `<b>Is it</b>?`
    """

    text: str
    start: int
    placeholders: tuple[Placeholder, ...] = ()
    is_torn: bool = False
    is_in_capitals: bool = False
    quoting: Quoting | None = None
    tags: str = ""

    @property
    def prepared(self) -> str:
        """The text with placeholders as the model receives them."""
        if not self.placeholders:
            return self.text
        return substitute(self.text, self.placeholders)

    def adapt(self, format: TextFormat) -> TextFormat:
        """Return the document's format as it applies to this segment."""
        return _quote(format, self.quoting) if self.quoting else format


@dataclass(frozen=True)
class PartStart:
    """The start of a part, such as an argument of a message. The pieces up to the next part
    replace its name in an earlier part."""

    name: str


#: The name of a part. It is random, so that neither a text nor a term has it.
_PART = re.compile("\ufdd0[0-9a-f]{32}\ufdd0")
#: A sentence with more placeholders is taken apart at once, as a model would lose one.
MAX_PLACEHOLDERS = 100

#: The marks that may follow a sentence's last tags, but that its model must see.
_TONES, _SPACES = "!?！？؟", " \u00a0\u202f"

Piece = str | Segment | Separator | PartStart


@dataclass(frozen=True)
class Document:
    """The pieces of a text."""

    pieces: tuple[Piece, ...]
    format: TextFormat
    #: The number of characters of the text, without its markup.
    characters: int = 0

    @property
    def segments(self) -> list[Segment]:
        """The sentences to translate, in order."""
        return [piece for piece in self.pieces if isinstance(piece, Segment)]

    def render(self, translations: Iterable[str]) -> str:
        """Return the document with its sentences replaced by translations."""
        given = list(translations)
        number = 0
        shown: list[str] = []
        parts = {"": shown}
        for piece in self.pieces:
            if isinstance(piece, str):
                shown.append(piece)
            elif isinstance(piece, PartStart):
                shown = parts[piece.name] = []
            elif isinstance(piece, Segment):
                text = given[number]
                body = text.rstrip(_TONES + _SPACES) if piece.tags else text
                shown += body, piece.tags, text[len(body) :]
                number += 1
            else:
                form = self.format
                before = piece.before or form.show(given[number - 1])
                after = piece.after or form.show(given[number])
                shown.append(spacing.separate(before, piece.text, after, form.spacing))
        return _insert(parts) if len(parts) > 1 else "".join(shown)


def _insert(parts: dict[str, list[str]]) -> str:
    """Return the first part with the others inserted. Parts refer only to later ones."""
    texts: dict[str, str] = {}
    for name, pieces in reversed(parts.items()):
        text = "".join(pieces)
        texts[name] = _PART.sub(lambda found: texts.get(found[0], found[0]), text)
    return texts[""]


@lru_cache(_FORMATS)
def _quote(format: TextFormat, quoting: Quoting) -> TextFormat:
    return replace(format, write=lambda text: format.write(quoting.quote(text)))


def find_kept(
    text: str, is_protected: bool, terms: Sequence[Terms]
) -> list[Placeholder]:
    """Find the parts of a text that the model must not translate."""
    protected = find_protected(text) if is_protected else []
    return combine(protected, find_terms(text, terms)) if terms else protected


def _mark_capitals(
    pieces: Iterable[Piece], whole: Segment, language: str
) -> Iterator[Piece]:
    """Mark the pieces of a text that are in capitals. A single word may be an acronym, unless
    the whole text is in capitals."""
    is_all: bool | None = None
    for piece in pieces:
        if isinstance(piece, Segment):
            words = _count_capitals(piece, language)
            if words == 1 and is_all is None:
                is_all = _count_capitals(whole, language) > 1
            if words > 1 or (words and is_all):
                piece = replace(piece, is_in_capitals=True)
        yield piece


def _count_capitals(segment: Segment, language: str) -> int:
    """Return the number of words of a text in capitals, also of terms, and 0 for any other."""
    text = segment.text
    hidden = [
        p
        for p in segment.placeholders
        if p.role is not Role.TERM or not text[p.start : p.end].isupper()
    ]
    return orthography.count_words(substitute(text, hidden), language)


def divide(segment: Segment, max_characters: int, format: TextFormat) -> Document:
    """Divide a sentence that is too long for the model into parts of up to `max_characters`."""
    spans = _spans(segment.placeholders)
    parts = segmentation.split(segment.text, max_characters, spans)
    return Document(tuple(_cut(segment, parts, format)), format)


def take_apart(segment: Segment, format: TextFormat) -> Document:
    """Divide a sentence whose placeholders the model loses: the text between them is translated
    separately, so every placeholder stays in its place."""
    pieces: list[Piece] = []
    end = 0
    bare = replace(segment, placeholders=())
    last = Placeholder(len(segment.text), len(segment.text), "")
    for placeholder in (*segment.placeholders, last):
        gap = Part(end, placeholder.start, is_sentence=True, is_torn=segment.is_torn)
        pieces += _cut(bare, [gap], format)
        pieces += _set_off(placeholder, format)
        end = placeholder.end
    return Document(tuple(spacing.place(pieces, format.show)), format)


def _set_off(placeholder: Placeholder, format: TextFormat) -> list[Piece]:
    """Return a placeholder with separators, outside of tags, where a space may be needed."""
    pieces: list[Piece] = [placeholder.shown]
    if format.spacing is Spacing.ADD:
        is_tag = placeholder.role in (Role.OPENING, Role.CLOSING)
        is_word = placeholder.start < placeholder.end and not is_tag
        if is_word or placeholder.role is Role.OPENING:
            pieces.insert(0, Separator(""))
        if is_word or placeholder.role is Role.CLOSING:
            pieces.append(Separator(""))
    return pieces


def _spans(placeholders: Iterable[Placeholder]) -> list[tuple[int, int]]:
    return [(p.start, p.end) for p in placeholders]


def _cut(whole: Segment, parts: Iterable[Part], format: TextFormat) -> Iterator[Piece]:
    """Yield the pieces of a text, which inherit its capitals and its quoting."""
    pieces = _cut_parts(whole, parts, format)
    if format.spacing is not Spacing.KEEP:
        pieces = spacing.place(pieces, format.show)
    return pieces


def _cut_parts(
    whole: Segment, parts: Iterable[Part], format: TextFormat
) -> Iterator[Piece]:
    rest = deque(whole.placeholders)
    own_format = whole.adapt(format)
    edge = [EDGE] if format.spacing is Spacing.ADD else []
    gap: list[str] = []
    for part in parts:
        own = [p.moved(part.start) for p in _take_placeholders(rest, part.end)]
        found = whole.text[part.start : part.end]
        core = _find_core(found, own) if part.is_sentence else None
        following = whole.text[part.end : part.end + 1]
        if core is None:
            gap.append(_show(found, own, own_format, following))
            continue
        yield spacing.find_separator("".join(gap), format.spacing)
        seen, inside = core
        yield _show(found[: seen.start], own[: inside.start], own_format, found[seen])
        yield from edge
        inner = tuple(p.moved(seen.start) for p in own[inside])
        after = own[inside.stop :]
        tags = "".join(p.shown for p in after if p.end < seen.stop)
        segment = Segment(
            format.read(found[seen]),
            whole.start + part.start + seen.start,
            inner,
            part.is_torn,
            whole.is_in_capitals,
            whole.quoting,
            tags,
        )
        if len(inner) > MAX_PLACEHOLDERS:
            yield from (*take_apart(segment, format).pieces, tags)
        else:
            yield segment
        yield from edge
        after = [p.moved(seen.stop) for p in after if p.end >= seen.stop]
        yield _show(found[seen.stop :], after, own_format, following)
        gap = []
    yield "".join(gap)
    if rest:
        yield "".join(p.shown for p in rest)


def _take_placeholders(rest: deque[Placeholder], end: int) -> Iterator[Placeholder]:
    """Remove and yield the placeholders up to `end`. Between two parts, a closing tag belongs
    to the first, and any other placeholder to the second."""
    while rest and rest[0].end <= end:
        if rest[0].start == end and rest[0].role is not Role.CLOSING:
            break
        yield rest.popleft()


def _show(
    text: str, placeholders: Sequence[Placeholder], format: TextFormat, following: str
) -> str:
    """Return a text with its placeholders, and its lone signs in the target's form, but not
    those that `following` text makes part of `{a}.{b}`."""
    if not (text or placeholders):
        return ""
    form = format.spacing
    if form is Spacing.DROP:
        last = max((p.end for p in placeholders if p.end < len(text)), default=0)
        if not following.strip():
            text = text[:last] + spacing.rewrite(text[last:], form)
        form = Spacing.KEEP

    def write(piece: str) -> str:
        return format.write(spacing.rewrite(piece, form))

    return fill(text, placeholders, [p.shown for p in placeholders], write)


def _find_core(
    text: str, placeholders: Sequence[Placeholder]
) -> tuple[slice, slice] | None:
    """Return the characters and placeholders of a sentence that the model must see, without
    tags around or beside it and loose placeholders at its edges, or None without words."""
    lone = find_lone(placeholders)
    ends = [0, *(p.end for p in placeholders)]
    starts = [*(p.start for p in placeholders), len(text)]
    #: Whether there are words before each placeholder, and after the last.
    has_words = [
        _LETTER.search(text, end, start) is not None
        for end, start in zip(ends, starts, strict=True)
    ]
    first, last = 0, len(placeholders)
    while first < last:
        head, (begin, end, _, tail) = placeholders[first].role, placeholders[last - 1]
        is_at_start, is_at_end = not has_words[first], not has_words[last]
        is_wrapped = (head, tail) == (Role.OPENING, Role.CLOSING)
        # React writes `Who is <!-- -->Anna<!-- -->?`
        has_mark = begin == end and text[end : starts[last]].strip()
        if is_at_start and (head is Role.LOOSE or first in lone):
            first += 1
        elif is_at_end and (last - 1 in lone or (tail is Role.LOOSE and not has_mark)):
            last -= 1
        elif is_at_start and is_at_end and is_wrapped:
            first, last = first + 1, last - 1
        else:
            break
    if not any(has_words[first : last + 1]):
        return None
    start, end = ends[first], starts[last]
    before, after = text[start : starts[first]], text[ends[last] : end]
    start += len(before) - len(before.lstrip())
    end -= len(after) - len(after.rstrip())
    # Its marks outside of tags belong to it: `¿<b>Es ella</b>?`
    start -= text.endswith(("¿", "¡"), 0, start)
    if last < len(placeholders) and placeholders[last].start == ends[last + 1]:
        rest = text[end:].lstrip(_SPACES)
        if rest.startswith(tuple(_TONES)):
            end = len(text) - len(rest.lstrip(_TONES))
    return slice(start, end), slice(first, last)


@dataclass(frozen=True)
class ReadingJob:
    """Texts with their languages, and options for reading them: at most `max_rows` sentences in
    all. A text without a language is only counted. Without a `target`, separators stay."""

    texts: tuple[tuple[str, str], ...]
    tags: Tags | None
    is_protected: bool
    max_rows: int
    splitting: Splitting = "lines"
    target: str | None = None
    dictionaries: Choice | None = None

    def choose_format(self, language: str) -> TextFormat:
        usual = PLAIN if self.splitting == "lines" else FLOWING
        if self.tags:
            usual = XML if self.tags.is_xml else HTML
        return _choose_format(usual, language, self.target or language)

    def scan_runs(
        self, runs: Iterable[Run], language: str, cache: TermCache | None
    ) -> Iterator[Piece]:
        """Yield the pieces of one of the texts, given its runs. Raises TermsUnavailable."""
        terms: Sequence[Terms] = ()
        if cache and self.dictionaries and self.target:
            terms = cache.take(self.dictionaries, language, self.target)
        start = 0
        format = self.choose_format(language)
        parts: deque[tuple[str, Iterator[Piece]]] = deque()
        for run in runs:
            if run.is_markup:
                yield run.text
                continue
            scanner = _RunScanner(self, language, terms, format, run, start, parts)
            yield from scanner.scan()
            start += len(run.text)
        while parts:
            name, pieces = parts.popleft()
            yield PartStart(name)
            yield from pieces


#: A plural inside this many others gets no missing arms. Each level has up to six copies of the
#: next, so a few short texts could exhaust the memory.
_MOST_PLURALS = 2


@dataclass(frozen=True)
class _RunScanner:
    """The scanner of a run of text that begins at character `start` of the client's text."""

    job: ReadingJob
    language: str
    terms: Sequence[Terms]
    format: TextFormat
    run: Run
    start: int
    #: The parts of the text that are not yet scanned, with their names.
    parts: deque[tuple[str, Iterator[Piece]]]

    def scan(self) -> Iterator[Piece]:
        """Return the pieces of the run, and queue its parts."""
        text = self.run.text
        tags = list(self.run.placeholders)
        message = None
        if self.job.is_protected and "{" in text:
            message = messages.read_message(text, tags)
        if message:
            return self._scan_message(message, ())
        return self._scan_text(Stretch(text, tags=tags), self.start)

    def _scan_text(
        self, stretch: Stretch, start: int, quoting: Quoting | None = None
    ) -> Iterator[Piece]:
        job = self.job
        source = stretch.text
        text = source if job.splitting == "lines" else self.format.read(source)
        placeholders = self._find_kept(text, stretch.kept, quoting)
        if job.tags:
            write = self.format.write
            shown = [p._replace(shown=write(p.shown)) for p in placeholders]
            placeholders = merge_tags(stretch.tags, shown)
        spans = _spans(placeholders)
        parts: Iterable[Part] = segmentation.segment(text, self.language, spans)
        if job.splitting == "none":
            parts = segmentation.split(text, segmentation.MAX_CHARACTERS, spans)
        whole = Segment(source, start, tuple(placeholders), quoting=quoting)
        return _mark_capitals(_cut(whole, parts, self.format), whole, self.language)

    def _find_kept(
        self, text: str, kept: Sequence[Placeholder], quoting: Quoting | None
    ) -> list[Placeholder]:
        """Find the parts to keep, in addition to the places that a message keeps."""
        blank = fill(text, kept, ["\n" * len(place.shown) for place in kept])
        found = find_kept(blank, self.job.is_protected, self.terms)
        if quoting:
            found = [p._replace(shown=quoting.quote(p.shown)) for p in found]
        return merge_tags(kept, found)

    def _scan_message(
        self, message: IcuMessage, around: tuple[str, ...]
    ) -> Iterator[Piece]:
        """Yield the pieces of a message, or of an arm in arguments of the kinds `around`."""
        source = self.run.text
        stretch = messages.flatten(
            source,
            message,
            self.run.placeholders,
            lambda place: self._add_part(self._scan_argument(place, around)),
        )
        is_plural = bool(around) and around[-1] != "select"
        quoting = Quoting(self._is_doubled, is_plural)
        for piece in self._scan_text(stretch, 0, quoting):
            if isinstance(piece, Segment):
                piece = replace(piece, start=self.start + stretch.locate(piece.start))
            yield piece

    @cached_property
    def _is_doubled(self) -> bool:
        return "''" in self.run.text

    def _add_part(self, pieces: Iterator[Piece]) -> str:
        name = f"\ufdd0{uuid4().hex}\ufdd0"
        self.parts.append((name, pieces))
        return name

    def _scan_argument(
        self, place: MessagePlace, around: tuple[str, ...]
    ) -> Iterator[Piece]:
        """Yield the pieces of an argument with its arms. Missing arms are copies of `other`."""
        source, write, end = self.run.text, self.format.write, place.start
        plurals = sum(kind != "select" for kind in around)
        target = self.job.target if plurals < _MOST_PLURALS else None
        for arm in place.arms:
            yield write(source[end : arm.start])
            head = write(source[arm.start : arm.text.start])
            end = arm.text.end
            pieces = self._scan_message(arm.text, (*around, place.kind))
            missing = place.find_missing(target) if arm.key == "other" else ()
            if missing:
                name = self._add_part(pieces)
                pieces = iter([name])
                for key in missing:
                    yield f"{head.replace('other', key, 1)}{name}}}"
            yield head
            yield from pieces
        yield write(source[end : place.end])


@lru_cache(_FORMATS)
def _choose_format(usual: TextFormat, source: str, target: str) -> TextFormat:
    return replace(usual, spacing=compare(source, target))


def scan(job: ReadingJob, cache: TermCache | None = None) -> Iterator[Piece | int]:
    """Yield the pieces of all texts, and after each text the number of its characters. Raises
    TooManySentences at the first sentence too many, and TermsUnavailable."""
    rows = 0
    is_plain = not (job.tags or job.dictionaries)
    for text, language in job.texts:
        pieces: Iterable[Piece] = ()
        characters = len(text)
        is_short = is_plain and language and len(text) < _SHORT
        is_sentence = is_short and _SENTENCE.fullmatch(text)
        if is_sentence and not find_kept(text, job.is_protected, ()):
            is_in_capitals = orthography.count_words(text, language) > 1
            pieces = [Segment(text, 0, is_in_capitals=is_in_capitals)]
        else:
            runs = [Run(text)]
            if job.tags:
                runs = markup_runs.parse_markup(text, job.tags)
            characters = sum(len(run.text) for run in runs if not run.is_markup)
            if language:
                pieces = _join_kept(job.scan_runs(runs, language, cache))
        for piece in pieces:
            rows += isinstance(piece, Segment)
            if rows > job.max_rows:
                raise TooManySentences
            yield piece
        yield characters


def _join_kept(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for is_kept, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_kept:
            yield "".join(map(str, group))
        else:
            yield from group


def collect(job: ReadingJob, pieces: Iterable[Piece | int]) -> Iterator[Document]:
    """Yield the documents made up of the pieces that `scan` yields."""
    languages = (language for _, language in job.texts)
    own: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, int):
            yield Document(tuple(own), job.choose_format(next(languages)), piece)
            own = []
        else:
            own.append(piece)
