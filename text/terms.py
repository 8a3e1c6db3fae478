"""Finds a glossary's terms in a text, and writes their translations in the text's capitals:
`Invoice` at the start of a sentence becomes `Facture`, `INVOICE` becomes `FACTURE`. Caches the
terms of recent dictionaries: building them can take several seconds, and they never change.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar

import regex

from text.automaton import Automaton
from text.entries import Entry, read_stored, write_tsv
from text.orthography import (
    TURKISH,
    TURKISH_SMALL,
    is_cased,
    to_capitals,
    to_sentence_case,
)
from text.placeholders import Placeholder, Role

#: Scripts without spaces: a term may begin and end anywhere.
_SPACELESS = "".join(
    rf"\p{{{script}}}"
    for script in "Han Hiragana Katakana Bopomofo Thai Lao Khmer Myanmar".split()
)
_LETTER = (
    rf"[[\p{{L}}\p{{M}}\p{{N}}_\u00ad\u200c\u200d]--[{_SPACELESS}ーｰ\p{{Hangul}}]]"
)
_APOSTROPHES, _HYPHENS = "'’‘ʼʹ′＇", "-‐‑"
#: A word, a letter of a script without spaces, or a sign. `can't` is one word, without a `can`,
#: and `3.5` is one number.
_TOKEN = regex.compile(
    rf"(?P<korean>\p{{Hangul}}[\p{{Hangul}}\p{{M}}]*+)"
    rf"|{_LETTER}++(?:[.,](?<=\p{{N}}.)(?=\p{{N}}){_LETTER}++)*+"
    rf"(?:(?<=[nN])[{_APOSTROPHES}][tT](?!{_LETTER}))?+"
    r"|(?P<space>\s++)|.\p{M}*+",
    regex.DOTALL | regex.V1,
)
#: The same in ASCII, ten times as fast.
_ASCII_TOKEN = re.compile(
    r"\w++(?:[.,](?<=\d.)(?=\d)\w++)*(?:(?<=n)'t(?!\w))?|\s++|.", re.ASCII | re.DOTALL
)
#: A placeholder at the start of a translation, and the first letter of a text.
_START = regex.compile(r"[^\w{}]*+\{(\d{1,9})\}")
_BEGINNING = regex.compile(r"\P{L}*+(\p{L})")
_FINAL_MARKS = (*".!?。！？｡।؟۔",)
_SAME = str.maketrans(
    dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_HYPHENS, "-") | {"\u00ad": ""}
)
#: Longer text is not composed: that needs quadratic time in a letter's accents.
_LONGEST = 4096
_SYLLABLE = regex.compile(r"\X")
#: Particles that Korean attaches to a noun.
_PARTICLES = frozenset(
    """은 는 이 가 을 를 에 에서 에게 에게서 에는 에도 에서는 의 와 과 도 로 으로
    로서 으로서 로써 으로써 로는 으로는 만 까지 부터 보다 처럼 한테 께 께서 이나 나
    라도 이라도 마다 조차 밖에 이랑 랑 하고 이란 란 이라는 라는 이라고 라고 야 아 이여
    입니다 이다 이에요 예요 인 이며 며 들 들은 들이 들을 들의 들에게""".split()
)
_LONGEST_PARTICLE = max(map(len, _PARTICLES))
#: Marks the first syllable of a Korean word.
_FIRST = "^"
#: The number of entries between two pauses.
_PAUSE_EVERY = 256
#: The size of the cache in bytes of stored entries; the dictionaries of one request may exceed
#: it. Terms need about five times as much memory.
_MOST_BYTES = 16 << 20

Item = TypeVar("Item")
_Key = tuple[str, str]


class _Token(NamedTuple):
    """Characters `start` to `end` of a text, and their form for comparisons."""

    start: int
    end: int
    form: str
    #: Whether a term may end here.
    may_end: bool = True


class _Chosen(NamedTuple):
    """The text to show in a term's place, and whether the term has the same capitals."""

    is_same: bool
    shown: str
    role: Role


class Terms:
    """The terms of a dictionary from `source` to `target`. Only numbers and the stored entries
    are kept in memory, a few times their bytes."""

    def __init__(
        self,
        entries: Iterable[Entry],
        source: str,
        target: str,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the terms, calling `pause` regularly: ten megabytes need seconds."""
        self.source, self._target = source, target
        self._content = bytearray()
        self._ends = array("Q", [0])
        if source == "el":
            entries = chain(entries, self._list_capitals(pause))
        symbols, lengths = array("q"), array("i")
        for entry in _take_breaks(entries, pause):
            known = len(symbols)
            symbols.extend(map(hash, _list_forms(entry[0], source)))
            lengths.append(len(symbols) - known)
            self._content += write_tsv([entry])
            self._ends.append(len(self._content))
        self.automaton = Automaton(symbols, lengths, pause)
        #: Entries that differ only in capitals: those used for the first, and the others.
        self._instead: dict[int, int] = {}
        self._others: dict[tuple[int, str], int] = {}
        for number, first in _take_breaks(self.automaton.repeated, pause):
            self._add(number, first)

    def _list_capitals(self, pause: Callable[[], None]) -> Iterator[Entry]:
        """Yield the Greek entries so far in capitals, which have no accents."""
        for number in _take_breaks(range(len(self._ends) - 1), pause):
            source, target = self._read_entry(number)
            if (raised := to_capitals(source, "el")) != source.upper():
                is_name = source == target
                yield raised, raised if is_name else to_capitals(target, self._target)

    def _read_entry(self, number: int) -> Entry:
        start, end = self._ends[number : number + 2]
        source, _, target = self._content[start:end].decode().partition("\t")
        return source, target

    def _add(self, number: int, first: int) -> None:
        """Add an entry that repeats `first`. An abbreviation yields to other entries."""
        known = self._instead.get(first, first)
        old, new = (self._read_entry(each)[0] for each in (known, number))
        if _is_abbreviation(old) and not _is_abbreviation(new):
            self._instead[first], number = number, known
        self._others.setdefault((first, _level(self._read_entry(number)[0])), number)

    def choose(self, found: str, number: int) -> _Chosen | None:
        """Return the translation of `found`, or None if it only resembles an abbreviation."""
        level = _level(found)
        source, target = self._read_entry(self._instead.get(number, number))
        is_same = _level(source) == level
        if not is_same and (number, level) in self._others:
            source, target = self._read_entry(self._others[number, level])
            is_same = True
        if source == target and (is_same or not _is_abbreviation(source)):
            return _Chosen(is_same, found, Role.WORD)
        if is_same:
            return _Chosen(True, target, Role.TERM)
        if _is_abbreviation(source):
            return None
        return _Chosen(False, *self._adapt(source, target, level))

    def _adapt(self, source: str, target: str, found: str) -> tuple[str, Role]:
        """Return the translation with the capitals of `found`, and its role."""
        if _is_abbreviation(found) and is_cased(self._target):
            return to_capitals(target, self._target), Role.TERM
        if found[0].isupper() and not source[0].isupper():
            raised = _raise(target, self._target)
            return raised, Role.TERM if raised == target else Role.RAISED
        return target, Role.TERM


def find_terms(text: str, dictionaries: Sequence[Terms]) -> list[Placeholder]:
    """Find the first and longest terms of a text, as placeholders of their translations. If two
    are equally long, that with the text's capitals is used, or else the earlier dictionary's.
    There is at least one dictionary, and all are from the same language."""
    tokens = list(_split(text, dictionaries[0].source))
    symbols = [hash(t.form) for t in tokens]
    may_end = [t.may_end for t in tokens]
    read = [(each, each.automaton.read(symbols)) for each in dictionaries]
    placeholders, place = [], 0
    while place < len(tokens):
        found = [
            (*terms.automaton.find(begun, place, may_end), terms)
            for terms, begun in read
        ]
        length = max(each[0] for each in found)
        if length:
            start, end = tokens[place].start, tokens[place + length - 1].end
            chosen = [
                terms.choose(text[start:end], number)
                for size, number, terms in found
                if size == length
            ]
            best = max(filter(None, chosen), key=lambda c: c.is_same, default=None)
            if best:
                placeholders.append(Placeholder(start, end, best.shown, best.role))
        place += length or 1
    return placeholders


def settle(
    text: str,
    placeholders: Sequence[Placeholder],
    translated: str,
    pair: tuple[str, str],
) -> Sequence[Placeholder]:
    """Adapt a sentence's terms to its translation: a term that has moved to the start is
    capitalised, and one that has left it is not. `pair` is the source and target language."""
    for number, found in enumerate(placeholders):
        if found.role in (Role.OPENING, Role.CLOSING):
            translated = translated.replace(f"{{{number}}}", "")
            blank = " " * (found.end - found.start)
            text = text[: found.start] + blank + text[found.end :]
    (source, target), first = pair, _START.match(translated)
    begins = _BEGINNING.match(text)
    is_raised = begins is not None and begins[1].isupper()
    if not is_cased(source):
        is_raised = text.rstrip().endswith(_FINAL_MARKS)
    settled = []
    for number, found in enumerate(placeholders):
        is_first = first is not None and int(first[1]) == number
        began = begins is not None and begins.start(1) == found.start
        if is_first and is_raised and found.role is Role.TERM:
            found = found._replace(shown=_raise(found.shown, target))
        elif began and not is_first and found.role is Role.RAISED:
            lowered = to_sentence_case(f"A{found.shown[0]}", target)[1:]
            found = found._replace(shown=lowered + found.shown[1:])
        settled.append(found)
    return settled


def _raise(text: str, language: str) -> str:
    """Capitalise a text, unless its first word has a capital inside."""
    word = text.partition(" ")[0]
    if word[0].isalpha() and word[1:] == word[1:].lower() and is_cased(language):
        return to_capitals(text[0], language) + text[1:]
    return text


def combine(
    protected: Iterable[Placeholder], terms: Iterable[Placeholder]
) -> list[Placeholder]:
    """Merge both in order. A term replaces parts inside it, but is dropped if it overlaps."""
    kept = list(protected)
    done = 0
    chosen: list[Placeholder] = []
    for term in terms:
        first = bisect_right(kept, term.start, done, key=attrgetter("end"))
        after = bisect_left(kept, term.end, first, key=attrgetter("start"))
        beside = kept[first:after]
        if all(term.start <= each.start and each.end <= term.end for each in beside):
            chosen += (*kept[done:first], term)
            done = after
    return chosen + kept[done:]


def _take_breaks(items: Iterable[Item], pause: Callable[[], None]) -> Iterator[Item]:
    for number, item in enumerate(items):
        if number % _PAUSE_EVERY == 0:
            pause()
        yield item


def _list_forms(text: str, language: str) -> list[str]:
    if text.isascii() and language not in TURKISH:
        found = _ASCII_TOKEN.findall(text.lower())
        return [" " if form.isspace() else form for form in found]
    return [token.form for token in _split(text, language)]


def _split(text: str, language: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if match.lastgroup == "space":
            yield _Token(start, end, " ")
        elif match.lastgroup == "korean":
            yield from _split_korean(match[0], start)
        else:
            yield _Token(start, end, _fold(match[0], language))


def _split_korean(word: str, start: int) -> Iterator[_Token]:
    """Yield syllables. A term begins with the word, and ends with it or before a particle."""
    found = list(_SYLLABLE.finditer(word))
    forms = [_level(match[0]) for match in found]
    for number, match in enumerate(found):
        rest = forms[number + 1 : number + 2 + _LONGEST_PARTICLE]
        yield _Token(
            start + match.start(),
            start + match.end(),
            forms[number] if number else _FIRST + forms[number],
            not rest or "".join(rest) in _PARTICLES,
        )


@lru_cache(1024)
def _fold(word: str, language: str) -> str:
    """Return a word's form without capitals."""
    if language in TURKISH:
        word = word.translate(TURKISH_SMALL)
    return word.lower() if word.isascii() else _level(word).casefold()


def _level(text: str) -> str:
    """Return composed text with one kind of apostrophe, hyphen and space."""
    if text.isascii() and text.isalnum():
        return text
    text = " ".join(text.split()) or text
    if len(text) <= _LONGEST:
        text = unicodedata.normalize("NFC", text)
    return text.translate(_SAME)


def _is_abbreviation(text: str) -> bool:
    """Whether a text has several letters, all of them capitals."""
    letters = [character for character in text if character.isalpha()]
    return len(letters) > 1 and all(letter.isupper() for letter in letters)


@dataclass(frozen=True)
class Choice:
    """The dictionaries for a request into one language: for each source language, the ids of
    those in `database` that apply. Entries of earlier ones take precedence."""

    database: str
    by_source: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class TermCache:
    """The terms of one process. `read_entries` returns the stored entries of a dictionary by
    its database and id, or raises TermsUnavailable. `pause` is called while terms are built."""

    read_entries: Callable[[str, str], bytes]
    pause: Callable[[], None] = lambda: None
    _kept: OrderedDict[_Key, tuple[Terms, int]] = field(default_factory=OrderedDict)

    def has(self, choice: Choice, source: str) -> bool:
        """Whether `take` returns at once."""
        return all(key in self._kept for key in _list_keys(choice, source))

    def take(self, choice: Choice, source: str, target: str) -> tuple[Terms, ...]:
        """Return the terms from `source`. May block for seconds. Raises TermsUnavailable."""
        keys = _list_keys(choice, source)
        found = list[Terms]()
        for key in keys:
            kept = self._kept.pop(key, None)
            if kept is None:
                stored = self.read_entries(*key)
                self._make_room(len(stored), keys)
                terms = Terms(read_stored(stored), source, target, self.pause)
                kept = terms, len(stored)
            self._kept[key] = kept  # as the latest
            found.append(kept[0])
        return tuple(found)

    def _make_room(self, size: int, needed: list[_Key]) -> None:
        """Evict the oldest terms, but none that the request needs, which have another limit."""
        used = size + sum(size for _, size in list(self._kept.values()))
        for key in list(self._kept):
            if used > _MOST_BYTES and key not in needed:
                used -= self._kept.pop(key)[1]


def _list_keys(choice: Choice, source: str) -> list[_Key]:
    return [(choice.database, each) for each in choice.by_source.get(source, ())]
