"""Splits a text into sentences and the gaps between them: joined, they are the text."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import regex
import sentencex  # type: ignore[import-untyped]
import yaml

#: Longer sentences are cut at a clause: the models were trained on sentences, and get worse
#: from about 200 tokens on.
MAX_CHARACTERS = 1000

_TABLE = Path(__file__).with_name("abbreviations.yaml").read_text("utf-8")
#: Abbreviations without their last full stop, by language, and of `labels` in several.
ABBREVIATIONS = {
    name: frozenset(words.split()) for name, words in yaml.safe_load(_TABLE).items()
}
#: In these languages "3. Mai" is a date, so a number with a full stop does not begin a list.
WITH_ORDINALS = frozenset("cs da de et fi hr hu is lt lv no pl sk sl sr tr".split())
_SIGNS = r"[-*+•‣▪◦·–—]|\d{1,3}\)|#{1,6}|>+"
#: Bullets that need no space after them.
_BULLETS = "[・●○■□◆◇※]"
#: Indentation and a list's bullet or number, a heading's or a quotation's sign.
_LEAD = regex.compile(rf"\s*+(?:(?:{_SIGNS}|\d{{1,3}}\.)\s++|{_BULLETS}\s*+)*+")
_LEAD_WITH_ORDINALS = regex.compile(rf"\s*+(?:(?:{_SIGNS})\s++|{_BULLETS}\s*+)*+")
_LINES = re.compile(r"[^\r\n]*+(?:[\r\n]++|$)")
_OPENING = "([{\"'«“„¿¡"
_LETTER = re.compile(r"[^\W\d_]")
#: Characters of a line that sentencex gets at a time, and how many of them count.
_WINDOW, _SURE = 2000, 1500
#: Characters that an abbreviation may have.
_LONGEST_WORD = 32
#: Characters that one letter and its accents, or one emoji, may have.
_LONGEST_LETTER = 32
#: Tried in this order: the end of a clause, the end of a word.
_CLAUSE_END = re.compile(r"[,;:、，；：،؛—–](?=\s|[^\s\d])\s*")
_WORD_END = re.compile(r"\s+")


class Part(NamedTuple):
    """Characters `start` to `end` of a text. A part that is not a sentence stays as it is.
    `is_torn` if a sentence was cut between two words or inside one.
    """

    start: int
    end: int
    is_sentence: bool = False
    is_torn: bool = False


class _Whole:
    """Spans that no cut may divide, in order and not overlapping."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        solid = [(start, end) for start, end in spans if end - start > 1]
        self._starts = [start for start, _ in solid]
        self._ends = [end for _, end in solid]

    def end_at(self, place: int) -> int:
        """The end of the span that a cut at `place` would divide, or `place`."""
        i = bisect_left(self._starts, place) - 1
        return max(place, self._ends[i]) if i >= 0 else place

    def divides(self, place: int) -> bool:
        """Whether a cut at `place` would divide a span."""
        return self.end_at(place) > place


def segment(
    text: str, language: str, whole: Iterable[tuple[int, int]] = ()
) -> Iterator[Part]:
    """The sentences of `text` and what is between them, in order and without gaps.

    No cut falls inside one of the `whole` spans, which are in order.
    """
    spans = _Whole(whole)
    start, is_lead = 0, False
    for cut, begins_lead in _find_cuts(text, language):
        if cut > start and not spans.divides(cut):
            if is_lead:
                yield Part(start, cut)
            else:
                yield from _cut(text, (start, cut), MAX_CHARACTERS, spans)
            start, is_lead = cut, begins_lead
        elif cut == start:
            is_lead = begins_lead


def split(
    text: str, max_characters: int, whole: Iterable[tuple[int, int]] = ()
) -> list[Part]:
    """`text` in parts of at most `max_characters`, cut at a clause's end, else between two
    words, else inside one. Parts around such a cut are torn. A `whole` span stays whole even
    if it is longer.
    """
    return list(_cut(text, (0, len(text)), max_characters, _Whole(whole)))


def _find_cuts(text: str, language: str) -> Iterator[tuple[int, bool]]:
    """The starts of lines and sentences, in order, and whether each is a line's lead."""
    lead = _LEAD_WITH_ORDINALS if language in WITH_ORDINALS else _LEAD
    for line in _LINES.finditer(text):
        begin = lead.match(text, line.start(), line.end())
        first = begin.end() if begin else line.start()
        if first > line.start():
            yield line.start(), True
        yield first, False
        for end in _find_ends(text[first : line.end()], language):
            yield first + end, False
    yield len(text), False


def _cut(
    text: str, span: tuple[int, int], max_characters: int, whole: _Whole
) -> Iterator[Part]:
    start, end = span
    was_torn = False
    while start < end:
        stop, is_torn = end, False
        if end - start > max_characters:
            stop, is_torn = _find_cut(text, start, start + max_characters, whole)
            stop = min(stop, end)
        yield from _trim(text, start, stop, is_torn=was_torn or is_torn)
        start, was_torn = stop, is_torn


def _find_ends(line: str, language: str) -> Iterator[int]:
    """sentencex needs time with the square of a line's length, so it gets a long line in
    windows. Ends found near a window's end may divide a quotation and are looked at again."""
    start = 0
    while start < len(line):
        window = line[start : start + _WINDOW]
        is_last = start + len(window) == len(line)
        sure = len(window) if is_last else _SURE
        end = 0
        for sentence in sentencex.segment(language, window):
            if end + len(sentence) > sure:
                break
            end += len(sentence)
            if not is_abbreviated(sentence, language):
                yield start + end
        start += end or sure


def is_abbreviated(sentence: str, language: str) -> bool:
    """Whether what looks like a sentence's end ends an abbreviation."""
    *_, last = sentence.rstrip()[-_LONGEST_WORD:].split() or [""]
    known = ABBREVIATIONS.get(language, frozenset())
    return last.endswith(".") and last[:-1].lstrip(_OPENING).lower() in known


def _find_cut(text: str, start: int, stop: int, whole: _Whole) -> tuple[int, bool]:
    """The end of a part, at most `stop`, and whether it tears a sentence."""
    half = (start + stop) // 2  # a cut before it would leave crumbs
    for pattern, tears in ((_CLAUSE_END, False), (_WORD_END, True)):
        ends = [match.end() for match in pattern.finditer(text, half, stop)]
        for end in reversed(ends):
            if not whole.divides(end):
                return end, tears
    end = whole.end_at(stop)
    is_whole = end > stop
    for _ in range(_LONGEST_LETTER):
        if end == len(text) or not (whole.divides(end) or _continues(text[end])):
            return end, True
        end = max(end + 1, whole.end_at(end))
    return (end if is_whole else stop), True


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf", "Sk")


def _trim(text: str, start: int, end: int, *, is_torn: bool) -> list[Part]:
    """The sentence without the white space around it. Without a letter there is nothing to
    translate: models make words of numbers such as `+1 (555) 123-4567`."""
    found = text[start:end]
    if not _LETTER.search(found):
        return [Part(start, end)] if found else []
    first = start + len(found) - len(found.lstrip())
    last = start + len(found.rstrip())
    parts = (Part(start, first), Part(first, last, True, is_torn), Part(last, end))
    return [part for part in parts if part.start < part.end]
