"""Reads ICU messages, such as `{n, plural, one {# file} other {# files}}`. A message is a tree
of places; the text between them is translated.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from text.placeholders import Placeholder

#: Deeper than any message written by people.
_MOST_DEPTH = 8
#: Other libraries' names of arguments have characters that ICU refuses: `{user.name}`.
_NAME = r"[^\s{}(),'\"<>#=|]++"
_WITH_ARMS = ("plural", "selectordinal", "select")
_STYLED = ("number", "date", "time", "spellout", "ordinal", "duration", "choice")
_KINDS = "|".join((*_WITH_ARMS, *_STYLED))
#: Only a text with an argument that has a type is read as a message.
TRACE = re.compile(rf"\{{\s*+{_NAME}\s*+,\s*+(?:{_KINDS})\s*+[,}}]")
_HEAD = re.compile(rf"\{{\s*+{_NAME}\s*+(?:\}}|,\s*+({_KINDS})\s*+(?:\}}|,))")
_OFFSET = re.compile(r"\s*+offset\s*+:\s*+-?\d++")
_SELECTOR = re.compile(rf"\s*+(=-?\d++|{_NAME})\s*+\{{")
_ARM_END, _END = re.compile(r"\}"), re.compile(r"\s*+\}")
#: Angular's expressions, which ICU does not have.
_EXPRESSION = re.compile(r"\{\{[^{}]++\}\}")
_STYLE_SIGN = re.compile(r"[{}]|'[^']*+'?")
#: An apostrophe begins a quotation only before a character of the syntax; two mean one.
_QUOTED = r"(?s:.)(?:[^']++|'')*+(?:'|\Z)"
_SIGN = re.compile(rf"[{{}}]|''|'(?=[{{}}<>]){_QUOTED}")
_PLURAL_SIGN = re.compile(rf"[{{}}#]|''|'(?=[{{}}<>#]){_QUOTED}")
_APOSTROPHE = "''"
#: An apostrophe of a translation that would begin a quotation, or continue one of ours.
_QUOTING = re.compile(r"'(?=['{}<>#]|\Z)|(?<=['{}#])'")
_CATEGORIES = ("zero", "one", "two", "few", "many")


@dataclass(frozen=True)
class MessagePlace:
    """Characters `start` to `end` of a message that, except for arms, are not translated: an
    argument, the `#` of a plural, or a quotation."""

    start: int
    end: int
    kind: str = ""
    arms: tuple[Arm, ...] = ()

    def find_missing(self, language: str | None) -> list[str]:
        """Return the selectors that a language also needs; `other` can serve as their arm."""
        keys = {arm.key for arm in self.arms}
        if language is None or self.kind not in _WITH_ARMS[:2] or "other" not in keys:
            return []
        return [key for key in list_categories(language, self.kind) if key not in keys]


@dataclass(frozen=True)
class Arm:
    """An arm of an argument. It starts with the white space before its selector."""

    start: int
    key: str
    text: IcuMessage


@dataclass(frozen=True)
class IcuMessage:
    """Characters `start` to `end` of a text, with the places in them."""

    start: int
    end: int
    places: tuple[MessagePlace, ...]

    def list_texts(self) -> Iterator[tuple[int, int]]:
        """Yield the starts and ends of the texts between all places, in order, also in arms."""
        end = self.start
        for place in self.places:
            yield end, place.start
            for arm in place.arms:
                yield from arm.text.list_texts()
            end = place.end
        yield end, self.end


class _BrokenMessage(Exception):
    """The text is not a message."""


def read_message(source: str, tags: Sequence[Placeholder] = ()) -> IcuMessage | None:
    """Parse a message. Returns None for any other text, for a broken message, and for one with
    `tags` inside its syntax."""
    if not TRACE.search(source):
        return None
    try:
        message = _Reader(source).read_text(0, _SIGN)
    except _BrokenMessage:
        return None
    inside = sum(len(_choose(tags, *span)) for span in message.list_texts())
    return message if inside == len(tags) else None


def strip(text: str) -> str:
    """Return the texts of a message without its syntax, or any other text unchanged."""
    message = read_message(text)
    if message is None:
        return text
    return " ".join(text[start:end] for start, end in message.list_texts())


class _Reader:
    """A parser that reads a message from start to end. Its methods raise _BrokenMessage."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def read_text(self, depth: int, signs: re.Pattern[str]) -> IcuMessage:
        """Read the text up to the end of its arm or of the message."""
        start, places = self._at, list[MessagePlace]()
        while sign := signs.search(self._source, self._at):
            self._at = sign.start()
            if sign[0] == "}" and depth:
                break
            if sign[0] == "{":
                places.append(self._read_argument(depth))
            else:
                self._at = sign.end()
                places.append(MessagePlace(*sign.span()))
        else:
            self._at = len(self._source)
        return IcuMessage(start, self._at, tuple(places))

    def _read_argument(self, depth: int) -> MessagePlace:
        start, kind, arms = self._at, "", list[Arm]()
        if expression := _EXPRESSION.match(self._source, start):
            self._at = expression.end()
        else:
            head = self._take_match(_HEAD)
            kind = head[1] or ""
            if kind in _WITH_ARMS:
                arms = self._read_arms(depth + 1, kind)
            elif not head[0].endswith("}"):
                self._skip_style()
        return MessagePlace(start, self._at, kind, tuple(arms))

    def _read_arms(self, depth: int, kind: str) -> list[Arm]:
        offset = _OFFSET.match(self._source, self._at)
        if offset and kind != "select":
            self._at = offset.end()
        arms: dict[str, Arm] = {}
        while not arms or not (end := _END.match(self._source, self._at)):
            start = self._at
            key = self._take_match(_SELECTOR)[1]
            if key in arms or depth > _MOST_DEPTH:
                raise _BrokenMessage
            signs = _SIGN if kind == "select" else _PLURAL_SIGN
            arms[key] = Arm(start, key, self.read_text(depth, signs))
            self._take_match(_ARM_END)
        self._at = end.end()
        return list(arms.values())

    def _skip_style(self) -> None:
        start, depth = self._at, 0
        while depth >= 0 and (sign := _STYLE_SIGN.search(self._source, self._at)):
            self._at = sign.end()
            depth += (sign[0] == "{") - (sign[0] == "}")
        if depth >= 0 or not self._source[start : self._at - 1].strip():
            raise _BrokenMessage

    def _take_match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._source, self._at)
        if not found:
            raise _BrokenMessage
        self._at = found.end()
        return found


@cache
def list_categories(language: str, kind: str) -> list[str]:
    """List the plural categories of a language besides `other`, by CLDR, for a `plural` or a
    `selectordinal`. There are none if Babel does not have the language."""
    from babel import Locale, UnknownLocaleError  # only messages need it

    try:
        locale = Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError):
        return []
    rule = locale.plural_form if kind == "plural" else locale.ordinal_form
    return [category for category in _CATEGORIES if category in rule.tags]


@dataclass(frozen=True)
class Quoting:
    """The characters that a text of a message must quote: apostrophes, which the message may
    double everywhere, braces, and the `#` of a plural."""

    is_doubled: bool
    is_plural: bool

    def quote(self, text: str) -> str:
        """Write a text as its message requires."""
        if self.is_doubled:
            text = text.replace("'", _APOSTROPHE)
        else:
            text = _QUOTING.sub(_APOSTROPHE, text)
        return re.sub("[{}#]+" if self.is_plural else "[{}]+", r"'\g<0>'", text)


@dataclass
class Stretch:
    """A text of a message in its form for translation: arguments with arms are replaced with
    names, and double apostrophes with single ones."""

    text: str = ""
    kept: list[Placeholder] = field(default_factory=list)
    tags: list[Placeholder] = field(default_factory=list)
    #: Offsets in the text, in order, and the corresponding ones in the message.
    origins: list[tuple[int, int]] = field(default_factory=list)

    def locate(self, at: int) -> int:
        """Return the offset in the message for an offset in the text."""
        place, origin = self.origins[bisect_right(self.origins, (at, sys.maxsize)) - 1]
        return origin + at - place


def flatten(
    source: str,
    message: IcuMessage,
    tags: Sequence[Placeholder],
    name: Callable[[MessagePlace], str],
) -> Stretch:
    """Prepare a text of the message `source` with its `tags` for translation. `name` returns
    the name for an argument with arms."""
    stretch = Stretch()
    pieces, length, end = list[str](), 0, message.start
    for place in (*message.places, MessagePlace(message.end, message.end)):
        stretch.origins.append((length, end))
        inside = _choose(tags, end, place.start)
        stretch.tags += [tag.moved(end - length) for tag in inside]
        length += place.start - end
        shown = source[place.start : place.end]
        if shown == _APOSTROPHE:
            shown = "'"
        elif shown:
            shown = name(place) if place.arms else shown
            stretch.kept.append(Placeholder(length, length + len(shown), shown))
        pieces += (source[end : place.start], shown)
        length += len(shown)
        end = place.end
    stretch.text = "".join(pieces)
    return stretch


def _choose(tags: Sequence[Placeholder], start: int, end: int) -> Sequence[Placeholder]:
    """Return the tags between two offsets, both included."""
    first = bisect_left(tags, start, key=lambda tag: tag.start)
    return tags[first : bisect_right(tags, end, key=lambda tag: tag.start)]
