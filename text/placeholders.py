"""Replaces the parts that a translation must preserve with placeholders, and restores them."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

import regex


class Role(Enum):
    """The role of a placeholder in its sentence."""

    #: Part of the sentence: a variable, or a number with its unit.
    WORD = auto()
    #: The translation of a term; and one whose first letter was capitalised.
    TERM = auto()
    RAISED = auto()
    #: Can be left out at the sentence's edge: an emoji, an address, a line break.
    LOOSE = auto()
    OPENING = auto()
    CLOSING = auto()


class Placeholder(NamedTuple):
    """Characters `start` to `end` of a text (none for a tag) that appear as `shown`. A tuple is
    three times as quick to create, and 1 MiB of text can have 350,000 placeholders."""

    start: int
    end: int
    shown: str
    role: Role = Role.WORD

    def moved(self, by: int) -> Placeholder:
        """Return the same placeholder in a text that begins `by` characters later."""
        return Placeholder(self.start - by, self.end - by, self.shown, self.role)


_UNITS = """
    km/h km² km m² m³ [ckCK]?[mM][23] m/s cm mm nm µm m mph ft kg mg µg g lbs? oz ml cl dl
    l L °C °F ° [kMGTP]?i?B/s [kMG]bit/s [kKMGTP]i?B [kMG]?Hz [kMG]?Wh? [kMG]?V mAh mA px
    dpi fps dB kcal kPa hPa
""".split()
#: Letters of languages that write no spaces or attach particles to words. They belong to an
#: address only after a slash or a similar sign.
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
)
_URL_CHARACTER = (
    rf"(?:[^\s<>\"'`{{}}|\\^\[\]、。，！？「」（）{_UNSPACED}]|(?<=[/=_{_UNSPACED}-])[{_UNSPACED}]"
    r"|\{[\w.]++\}|\[[\w.:%$,-]*+\]|\]\((?=http))"  # Markdown's `[http://a](http://a)`
)
#: The ending of a version: `2.0.0-rc.1`.
_PRERELEASE = r"(?:-(?:alpha|beta|dev|pre|preview|rc|snapshot)(?:\.?\d++)?+)?+"
#: Large numbers with spaces, ranges and fractions: `1 000 kg`, `5-10 kg`, `1/2 kg`.
_AMOUNT = r"(?:\d++(?:[.,]\d++)*+[-–/×x'’]){0,2}+"
_AMOUNT += r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,4}+(?!\d)|\d++)"
#: Dates and large numbers, which languages write differently: `22.11.2026`, `1.234.567`.
_NUMBER = re.compile(
    r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?:\d\d)?\d\d|\d{1,3}(?:\.\d{3})+"
)
#: A picture with its variation and skin tone, or the letters of a region's flag.
_PICTURE = r"\p{Extended_Pictographic}[\uFE0E\uFE0F\p{EMod}\U000E0020-\U000E007F]*+"
_WORD = r"\p{Latin}\p{Cyrillic}\p{Greek}\d_"
#: `\n` in the strings of programs, but not in `\new`, `C:\Neu`, `\\NAS` or `Files\NVIDIA`.
WRITTEN_BREAK = r"\\(?:[nrt]|N(?![A-Z]{2}))(?<!(?:\b[A-Za-z]:|\\)\\.)(?![a-z])"
#: If two kinds match at the same place, the first in this list wins. To keep the search
#: linear, no repeat backtracks, and none runs past a place where its own kind can begin.
_KINDS = {
    # A backtick after a letter is an apostrophe: `don`t`.
    "code": rf"```.+?```|``[^`\n]++``|(?<![{_WORD}])`[^`\n]++`",
    "url": rf"(?:(?i:https?|ftps?|file)://|(?<![{_WORD}.@/-])(?i:www)\.)"
    rf"{_URL_CHARACTER}++",
    "email": rf"(?<![{_WORD}.+%-])(?:[oO]['’])?+[{_WORD}.+%-]++"
    rf"@[{_WORD}-]++(?:\.[{_WORD}-]++)++",
    "braces": r"\{\{(?:[^{}]|\{(?!\{)|\}(?!\}))++\}\}\}?+|[$%#]\{[^{}\n]++\}"
    r"|\{[\w.!$\[\]]*+:[^\s{}]++\}|\{/?+[\w.:#!$\[\] ,-]*+(?:=[^{}\n]++)?+\}"
    r"|\{%(?:[^{%\n]|\{(?!%)|%(?!\}))++%\}",
    # The styles of subtitles, `{\an8}`, and line breaks in programs, `\n`.
    "style": rf"\{{\\[a-zA-Z][^\s{{}}]*+\}}|{WRITTEN_BREAK}",
    # Tags in messages of programs: `<0>here</0>`, `<a href="x">{n}</a>`, `<color=#f00>`.
    "tag": r"</?+(?:\d{1,3}+|[a-zA-Z][\w-]*+)(?:[ \t=][^<>\n]*+)?+/?+>",
    # Messages and values of other libraries: `$t(key)`, `$USER$`, `%name%`, `@:key`; Weblate's
    # `[X14X]`; mentions and emoji of chats, `<@123>`, `<:wave:123>`.
    "reference": rf"\$t\([^()\n]++\)|\$[a-zA-Z]\w*+\$(?![{_WORD}])|\[X\d++X\]"
    rf"|%(?<![{_WORD}%]%)[a-zA-Z_][\w.-]*+%(?![{_WORD}%])|<(?:[@#!]|a?:\w++:)[^\s<>]++>"
    rf"|@(?<![{_WORD}.]@)(?:\.[a-z]++)?+:(?:\([^()\s]++\)|[a-zA-Z_]\w*+(?:[.-]\w++)*+)",
    "printf": r"%%|%\(\w++\)[#0 +-]*+\d*+(?:\.\d++)?+[a-zA-Z]"
    r"|%(?:\d++\$)?+[#0+-]*+\d*+(?:\.\d++)?+"
    rf"(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGaAcspn@](?![{_WORD}])",
    "argument": rf"%(?<![{_WORD}%]%)L?+[1-9](?![{_WORD}%$]|[.,]\d)",  # of Qt, `%1`
    "shortcode": rf"(?<![{_WORD}:]):(?=[0-9_+-]*+[a-z])[a-z0-9_+-]++:(?![{_WORD}:])"
    rf"|(?<![{_WORD}:]):[+-]1:",
    # A value, `:name` or `@name`, but not a clock, a smiley, or a colon after a word.
    "value": rf"(?<![^\s(\[\"'«„“‘>])(?::[a-zA-Z_][a-zA-Z0-9_]++(?!:)"
    rf"|@[a-zA-Z_][a-zA-Z0-9_]++(?:[./-][a-zA-Z0-9_]++)*+)(?![{_WORD}@])",
    "quantity": rf"(?<![{_WORD}.,])[-+−]?+{_AMOUNT}(?:[.,]\d++)*+[ \u00a0\u202f]?+"
    rf"(?:{'|'.join(_UNITS)})(?![{_WORD}])",
    "version": rf"(?:[vV](?<![{_WORD}.,-].)\d++(?:\.\d++)*+"
    rf"|\d(?<![{_WORD}.,-].)\d*+(?:\.\d++){{2,}}+)"
    rf"{_PRERELEASE}(?![{_WORD}]|-[{_WORD}])",
    # Dates of ISO 8601, telephone and part numbers: `2030-01-31`, `12-3456-78`.
    "number": rf"\d(?<![{_WORD}.,/-].)\d*+(?:-\d++){{2,}}+(?![{_WORD}]|[./,-][{_WORD}])",
    # Standards may contain a space: `ISO 9001:2015`, `RFC 9110`.
    "standard": rf"(?<![{_WORD}.,/&@#-])(?:ISO(?:/IEC)?+|IEC|IEEE|RFC)[ \u00a0]"
    rf"\d++(?:[.-]\d++)*+(?::\d{{4}})?+(?![{_WORD}]|-[{_WORD}])",
    # Capitals and digits, but not in a compound such as `COVID-19-Pandemie`.
    "product": rf"[A-Z](?<![{_WORD}.,/&@#-].)(?=[A-Z]*+(?:[/-][A-Z]++)*+[/-]?\d)"
    rf"[A-Z\d]*+(?:[/-][A-Z\d]++)*+(?::\d{{4}})?+(?![{_WORD}]|[/-][{_WORD}])",
    "emoji": r"\p{RI}\p{RI}|[0-9#*]\uFE0F?\u20E3"
    rf"|{_PICTURE}(?:\u200D{_PICTURE})*+",
}
#: A letter inside a word, where only an address can begin: with `http`, `ftp` or `file`.
_NO_START = rf"(?!(?<=[{_WORD}])(?![\dfhFH])[{_WORD}])"
_LOOSE = ("url", "email", "style", "shortcode", "emoji")
_WITH_DIGITS = ("quantity", "version", "number", "standard", "product")


def _compile(*left_out: str) -> regex.Pattern[str]:
    found = "|".join(f"(?P<{n}>{k})" for n, k in _KINDS.items() if n not in left_out)
    return regex.compile(f"{_NO_START}(?:{found})", regex.DOTALL)


#: One or more characters of every kind: most sentences have none of them, and searching for all
#: kinds is thirty times as slow.
_TRACE = re.compile(
    r"[\d`@{%:<\\©®\u2000-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0010ffff]|[wW]{3}\.|\$[a-zA-Z]"
)
_DIGIT = re.compile(r"\d")
_ANY, _WITHOUT_DIGITS = _compile(), _compile(*_WITH_DIGITS)
#: Signs that end a sentence or a bracket do not belong to an address.
_AFTER_ADDRESS = ".,;:!?)»”’'\"。，、！？；：》】।؟،؛۔។"

#: Tags that a sentence may have lost at its edges.
_BEFORE = Placeholder(0, 0, "", Role.OPENING)
_AFTER = Placeholder(sys.maxsize, sys.maxsize, "", Role.CLOSING)
#: A longer number is not ours, and may be too long for `int`.
_PLACEHOLDER = re.compile(r"\{(\d{1,9})\}")


def find_protected(text: str) -> list[Placeholder]:
    """Find the parts of a plain text that must stay unchanged, in order."""
    if not _TRACE.search(text):
        return []
    placeholders = list[Placeholder]()
    has_arguments = re.search(r"%L?1(?!\d)", text)  # without %1, %5 is Turkish for 5 %
    pattern = _ANY if _DIGIT.search(text) else _WITHOUT_DIGITS
    for match in pattern.finditer(text):
        found = match[0]
        kind = match.lastgroup
        if kind == "url":
            found = found.rstrip(_AFTER_ADDRESS)
            is_open = found.count("(") > found.count(")")
            if is_open and match[0].startswith(")", len(found)):
                found += ")"  # as in `https://a.b/C_(language)`
        is_number = kind == "version" and _NUMBER.fullmatch(found)
        if is_number or (kind == "argument" and not has_arguments):
            continue
        end = match.start() + len(found)
        role = Role.LOOSE if kind in _LOOSE else Role.WORD
        if kind == "tag" and found[-2] != "/":
            role = Role.CLOSING if found[1] == "/" else Role.OPENING
        placeholders.append(Placeholder(match.start(), end, found, role))
    lone = find_lone(placeholders)  # `<1>` may be a footnote
    return [p for number, p in enumerate(placeholders) if number not in lone]


def find_lone(placeholders: Sequence[Placeholder]) -> set[int]:
    """Return the numbers of the tags that open or close nothing."""
    opened = defaultdict[str, list[int]](list)
    lone = set[int]()
    for number, found in enumerate(placeholders):
        if found.role not in (Role.OPENING, Role.CLOSING):
            continue
        name = found.shown.strip("</>").replace("=", " ").split()[0].lower()
        if found.role is Role.OPENING:
            opened[name].append(number)
        elif opened[name]:
            opened[name].pop()
        else:
            lone.add(number)
    lone.update(*opened.values())
    return lone


def merge_tags(
    tags: Sequence[Placeholder], found: Iterable[Placeholder]
) -> list[Placeholder]:
    """Return all placeholders in order, without those that a tag divides."""
    count = partial(bisect_right, [tag.start for tag in tags])
    whole = [p for p in found if count(p.start) == count(p.end - 1)]
    return sorted([*tags, *whole], key=lambda p: (p.start, p.end))


def substitute(text: str, placeholders: Sequence[Placeholder]) -> str:
    """Return the text with `{0}`, `{1}`, … in place of the placeholders. Software strings have
    placeholders of this form, so translation models have seen them."""
    names = [f"{{{number}}}" for number in range(len(placeholders))]
    return fill(text, placeholders, names)


def restore(
    translated: str, placeholders: Sequence[Placeholder], escape: Callable[[str], str]
) -> str | None:
    """Return the translation with its placeholders restored, or None if the model lost,
    invented or tore one, changed the order of tags, or emptied an element, such as a link."""
    if not placeholders:
        return escape(translated)
    pieces = _PLACEHOLDER.split(translated)
    numbers = list(map(int, pieces[1::2]))
    is_torn = any("{" in piece or "}" in piece for piece in pieces[::2])
    if is_torn or sorted(numbers) != list(range(len(placeholders))):
        return None
    tags = [n for n in numbers if placeholders[n].role in (Role.OPENING, Role.CLOSING)]
    order = [_BEFORE, *(placeholders[number] for number in numbers), _AFTER]
    if tags != sorted(tags) or any(map(_is_emptied, order, order[1:], pieces[::2])):
        return None
    pieces[::2] = map(escape, pieces[::2])
    pieces[1::2] = (placeholders[number].shown for number in numbers)
    return "".join(pieces)


def _is_emptied(first: Placeholder, second: Placeholder, between: str) -> bool:
    """Whether adjacent placeholders of a translation are an element that has lost its text."""
    is_pair = first.role is Role.OPENING and second.role is Role.CLOSING
    return is_pair and first.end < second.start and not between.strip()


def fill(
    text: str,
    placeholders: Sequence[Placeholder],
    shown: Sequence[str],
    escape: Callable[[str], str] = str,
) -> str:
    """Return the text with each placeholder's characters replaced."""
    pieces: list[str] = []
    end = 0
    for placeholder, replacement in zip(placeholders, shown, strict=True):
        pieces += (escape(text[end : placeholder.start]), replacement)
        end = placeholder.end
    return "".join([*pieces, escape(text[end:])])
