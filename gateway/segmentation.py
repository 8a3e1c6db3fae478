"""Cuts a text into sentences and what is between them, and loses no character: the parts
of a text, put together, are the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import sentencex  # type: ignore[import-untyped]

#: A sentence of more characters is cut at a clause: the models were trained on sentences
#: and get worse from about 200 tokens on.
MAX_CHARACTERS = 1000

#: What sentencex takes for the end of a sentence in the languages that it knows less well.
_ABBREVIATIONS = {
    "ar": "د م أ أ.د ا ت ص ج ق هـ م.م ش",
    "de": "bzw ca evtl ggf inkl max min sog usw vgl",
    "en": "e.g i.e approx dept est fig vs",
    "es": "aprox art av avda núm pág ud uds vs",
    "fr": "m mm mme mmes mlle mgr dr pr st ste av bd boul ch env etc ex fig n tél vol c",
    "hi": "डॉ श्री श्रीमती सुश्री कु प्रो पं मो इं ई.पू रु",
    "id": "rp jl no dr drs ir prof tn ny sdr kab kec kel gg hlm dll dsb yth s.d a.n",
    "it": "sig sigg sig.ra sig.na dott dott.ssa prof avv ing arch n art p pag pagg v ecc",
    "pt": "av sr sra srta dr dra d exmo exma prof profa n p pág págs r tel ed",
    "ru": "ул д кв р им стр рис тыс млн млрд руб коп т.е т.к т.н см ср пр пл обл",
    "vi": "ts ths pgs gs tp bs ks cn gs.ts pgs.ts tx tt q p đ",
}
_KNOWN = {
    language: frozenset(words.split()) for language, words in _ABBREVIATIONS.items()
}

#: Where "3. Mai" is a date, a number with a full stop does not begin a list.
_WITH_ORDINALS = frozenset("cs da de et fi hr hu is lt lv no pl sk sl sr tr".split())
_SIGNS = r"[-*+•‣▪◦·–—]|\d{1,3}\)|#{1,6}|>+"
#: Indentation and a list's bullet or number, a heading's or a quotation's sign.
_LEAD = re.compile(rf"\s*(?:(?:{_SIGNS}|\d{{1,3}}\.)\s+)*")
_LEAD_WITH_ORDINALS = re.compile(rf"\s*(?:(?:{_SIGNS})\s+)*")
_LINES = re.compile(r"[^\r\n]*(?:[\r\n]+|$)")
_OPENING = "([{\"'«“„¿¡"
_LAST_WORD = re.compile(r"(\S+)\.\s*$")
#: Characters that one letter and its accents, or one emoji, may have.
_LONGEST_LETTER = 32
#: In the order in which they are tried: a clause's end, a word's.
_CLAUSE_END = re.compile(r"[,;:、，；：،؛—–](?=\s|[^\s\d])\s*")
_WORD_END = re.compile(r"\s+")


@dataclass(frozen=True)
class Part:
    """Characters `start` to `end` of a text. What is no sentence is kept as it is.

    `is_torn` where a sentence has been cut between two words, or inside one.
    """

    start: int
    end: int
    is_sentence: bool = False
    is_torn: bool = False


def segment(
    text: str, language: str, whole: Iterable[tuple[int, int]] = ()
) -> list[Part]:
    """The sentences of `text` and what is between them, in order and without gaps.

    No cut falls inside one of the `whole` spans.
    """
    inside = _find_inside(whole)
    lead = _LEAD_WITH_ORDINALS if language in _WITH_ORDINALS else _LEAD
    cuts, leads = {len(text)}, set()
    for line in _LINES.finditer(text):
        begin = lead.match(line[0])
        first = line.start() + (begin.end() if begin else 0)
        if first > line.start():
            leads.add(line.start())
        ends = _find_ends(text[first : line.end()], language)
        cuts |= {line.start(), first, *(first + end for end in ends)}
    parts: list[Part] = []
    for start, end in pairwise(sorted(cuts - inside)):
        if start in leads:
            parts.append(Part(start, end))
        else:
            parts += _cut(text, (start, end), MAX_CHARACTERS, inside)
    return parts


def split(
    text: str, max_characters: int, whole: Iterable[tuple[int, int]] = ()
) -> list[Part]:
    """`text` in parts of at most so many characters: cut at a clause's end, or else
    between two words, or else inside one. What such a cut divides is torn.

    One of the `whole` spans is left whole even where it is longer than that.
    """
    return list(_cut(text, (0, len(text)), max_characters, _find_inside(whole)))


def _find_inside(spans: Iterable[tuple[int, int]]) -> set[int]:
    """The places where a cut would divide a span."""
    return {i for start, end in spans for i in range(start + 1, end)}


def _cut(
    text: str, span: tuple[int, int], max_characters: int, inside: set[int]
) -> Iterator[Part]:
    start, end = span
    was_torn = False
    while start < end:
        stop, is_torn = end, False
        if end - start > max_characters:
            stop, is_torn = _find_cut(text, start, start + max_characters, inside)
            stop = min(stop, end)
        yield from _trim(text, start, stop, is_torn=was_torn or is_torn)
        start, was_torn = stop, is_torn


def _find_ends(line: str, language: str) -> Iterator[int]:
    end = 0
    for sentence in sentencex.segment(language, line):
        end += len(sentence)
        last = _LAST_WORD.search(sentence)
        if not (last and last[1].lstrip(_OPENING).lower() in _KNOWN.get(language, ())):
            yield end


def _find_cut(text: str, start: int, stop: int, inside: set[int]) -> tuple[int, bool]:
    """Where the part that begins at `start` ends, at `stop` if it can, and whether that
    tears a sentence."""
    half = (start + stop) // 2  # a cut before it would leave crumbs
    for pattern, tears in ((_CLAUSE_END, False), (_WORD_END, True)):
        ends = {match.end() for match in pattern.finditer(text, half, stop)} - inside
        if ends:
            return max(ends), tears
    end = stop
    while end < len(text) and (end in inside or _continues(text[end])):
        end += 1
    is_endless = end - stop > _LONGEST_LETTER and stop not in inside
    return (stop if is_endless else end), True


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf", "Sk")


def _trim(text: str, start: int, end: int, *, is_torn: bool) -> list[Part]:
    """The sentence without the white space round it; without a letter or a digit there is
    nothing to translate."""
    found = text[start:end]
    if not any(character.isalnum() for character in found):
        return [Part(start, end)] if found else []
    first = start + len(found) - len(found.lstrip())
    last = start + len(found.rstrip())
    parts = (Part(start, first), Part(first, last, True, is_torn), Part(last, end))
    return [part for part in parts if part.start < part.end]
