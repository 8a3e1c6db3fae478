"""Splits a text into sentences and the gaps between them, which together are the text."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import regex
import sentencex  # type: ignore[import-untyped]
import yaml

from text.placeholders import WRITTEN_BREAK

#: Longer sentences are cut at a clause: the models were trained on sentences, and their quality
#: drops from about 200 tokens on.
MAX_CHARACTERS = 1000

_TABLE = Path(__file__).with_name("abbreviations.yaml").read_text("utf-8")
#: Abbreviations without their last full stop, by language; those of `labels` are in several.
ABBREVIATIONS = {
    name: frozenset(words.split()) for name, words in yaml.safe_load(_TABLE).items()
}
#: In these languages "3. Mai" is a date, so a number with a full stop does not begin a list.
WITH_ORDINALS = frozenset("cs da de et fi hr hu is lt lv no pl sk sl sr tr".split())
_SIGNS = r"[-*+•‣▪◦·–—→⇒►➤✓✗★☆]|(?:\d{1,3}|\(?[\da-zA-Z])\)|\[[ xX]\]|#{1,6}|>+"
#: Bullets that need no space after them.
_BULLETS = "[・●○■□◆◇※①-⑳]"
#: Indentation and a list's bullet or number, a heading's or a quotation's sign.
_LEAD = regex.compile(rf"\s*+(?:(?:{_SIGNS}|\d{{1,3}}\.)\s++|{_BULLETS}\s*+)*+")
_LEAD_WITH_ORDINALS = regex.compile(rf"\s*+(?:(?:{_SIGNS})\s++|{_BULLETS}\s*+)*+")
#: The text after a `\n` inside a sentence: `Press \n to go on.`
_MORE = r"[ ]\p{Ll}|[.,;:!?)\]}|/'\"$](?!\w)"
#: A line with its breaks, real ones and those in programs.
_LINES = regex.compile(
    rf"(?:[^\t\n\v\f\r\u2028\u2029\\]++|(?:{WRITTEN_BREAK})++(?={_MORE})"
    rf"|(?!{WRITTEN_BREAK})\\)*+"
    rf"(?:(?:[\t\n\v\f\r\u2028\u2029]|{WRITTEN_BREAK})++|$)"
)
#: A sign inside a name or an address: `ASP.NET`, `.PDF`, `{major}.{minor}`; Khmer's "etc.".
_INSIDE = re.compile(r"។(?=ល។)|\.(?=[A-Z]{2}|[{%])|(?<!\S)\.(?=\S)|\?(?=[{%])")
#: Khmer full stops, which sentencex does not know, as Burmese ones.
_KNOWN_STOPS = str.maketrans("។៕", "။။")
_OPENING = "([{\"'«“„¿¡"
_LETTER = re.compile(r"[^\W\d_]")
#: The characters of a line passed to sentencex at a time, and how far its results are reliable.
_WINDOW, _SURE = 2000, 1500
#: The maximum length of an abbreviation.
_LONGEST_WORD = 32
#: The maximum length of a letter with its accents, or of an emoji.
_LONGEST_LETTER = 32
#: Tried in this order: the end of a clause, the end of a word.
_CLAUSE_END = re.compile(r"[,;:、，；：،؛—–](?=\s|[^\s\d])\s*")
_WORD_END = re.compile(r"\s+")
#: A character that is part of the one before it.
_JOINED = regex.compile(r"[\p{M}\p{Cf}\p{Sk}]")


class Part(NamedTuple):
    """Characters `start` to `end` of a text. A part that is not a sentence stays unchanged.
    `is_torn` means that a sentence was cut between two words or inside one."""

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
        """Return the end of the span that a cut at `place` would divide, or `place`."""
        i = bisect_left(self._starts, place) - 1
        return max(place, self._ends[i]) if i >= 0 else place

    def divides(self, place: int) -> bool:
        """Whether a cut at `place` would divide a span."""
        return self.end_at(place) > place


def segment(
    text: str, language: str, whole: Iterable[tuple[int, int]] = ()
) -> Iterator[Part]:
    """Yield the sentences of `text` and the parts between them, in order and without gaps. No
    cut falls inside one of the `whole` spans, which are in order."""
    spans = _Whole(whole)
    start, is_lead = 0, False
    for cut, begins_lead in _find_cuts(text, language):
        if spans.divides(cut):
            is_lead = False  # what looks like a bullet belongs to the span
            continue
        if is_lead:
            yield Part(start, cut)
        else:
            yield from _cut(text, (start, cut), MAX_CHARACTERS, spans)
        start, is_lead = cut, begins_lead


def split(
    text: str, max_characters: int, whole: Iterable[tuple[int, int]] = ()
) -> list[Part]:
    """Split `text` into parts of at most `max_characters` at the end of a clause. If there is
    none, the cut is between two words or inside one, and the parts around it are torn. A
    `whole` span stays whole even if it is longer."""
    return list(_cut(text, (0, len(text)), max_characters, _Whole(whole)))


def _find_cuts(text: str, language: str) -> Iterator[tuple[int, bool]]:
    """Yield the starts of lines and sentences, in order, and whether each is a line's lead."""
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
        yield from _trim(text, start, stop, whole, is_torn=was_torn or is_torn)
        start, was_torn = stop, is_torn


def _find_ends(line: str, language: str) -> Iterator[int]:
    """Yield the ends of sentences. sentencex needs quadratic time, so long lines are passed in
    windows. Ends found near a window's end may divide a quotation and are searched again."""
    start = 0
    while start < len(line):
        window = line[start : start + _WINDOW]
        is_last = start + len(window) == len(line)
        sure = len(window) if is_last else _SURE
        end = 0
        for sentence in sentencex.segment(language, window.translate(_KNOWN_STOPS)):
            if end + len(sentence) > sure:
                break
            end += len(sentence)
            is_inside = _INSIDE.match(window, end - 1)
            if not (is_inside or is_abbreviated(sentence, language)):
                yield start + end
        start += end or sure


def is_abbreviated(sentence: str, language: str) -> bool:
    """Whether the apparent end of a sentence is only the end of an abbreviation."""
    *_, last = sentence.rstrip()[-_LONGEST_WORD:].split() or [""]
    known = ABBREVIATIONS.get(language, ())
    word = last[:-1].lstrip(_OPENING)
    return last.endswith(".") and (word in known or word.lower() in known)


def _find_cut(text: str, start: int, stop: int, whole: _Whole) -> tuple[int, bool]:
    """Return a part's end, up to `stop` or the end of a whole span, and whether it is torn."""
    half = (start + stop) // 2  # an earlier cut would leave tiny parts
    for pattern, tears in ((_CLAUSE_END, False), (_WORD_END, True)):
        ends = [match.end() for match in pattern.finditer(text, half, stop)]
        for end in reversed(ends):
            if not whole.divides(end):
                return end, tears
    end = whole.end_at(stop)
    is_whole = end > stop
    for _ in range(_LONGEST_LETTER):
        if end == len(text) or not (whole.divides(end) or _JOINED.match(text, end)):
            return end, True
        end = max(end + 1, whole.end_at(end))
    return (end if is_whole else stop), True


def _trim(
    text: str, start: int, end: int, whole: _Whole, *, is_torn: bool
) -> list[Part]:
    """Separate a sentence from the white space around it. Text without a letter is no sentence:
    models turn numbers such as `+1 (555) 123-4567` into words."""
    found = text[start:end]
    if not _LETTER.search(found):
        return [Part(start, end)] if found else []
    first = start + len(found) - len(found.lstrip())
    last = whole.end_at(start + len(found.rstrip()))
    parts = (Part(start, first), Part(first, last, True, is_torn), Part(last, end))
    return [part for part in parts if part.start < part.end]
