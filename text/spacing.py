"""Chooses the separator of two sentences of a line if the text's script puts a space there and
the translation's does not, or vice versa.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TypeVar

from contract.languages import SCRIPTS

#: Scripts without a space between sentences.
_UNSPACED = frozenset(("Han", "Hiragana", "Katakana"))
#: Strings that may separate two sentences of a line. Others, such as many spaces, are layout.
_SEPARATORS = frozenset(("", " ", "\u00a0", "\u3000"))
#: Signs that follow or precede a word without a space.
_AFTER_WORD = frozenset(",.;:!?…%、。，．；：！？")
_BEFORE_WORD = frozenset("¿¡")
#: Chinese and Japanese signs that are wide, although Unicode does not list them as wide.
_WIDE = frozenset("…—”’")


class Spacing(Enum):
    """The handling of the separators of a text's sentences."""

    KEEP = auto()
    ADD = auto()
    DROP = auto()


#: Signs outside of sentences, such as after an address, in the target's form.
_SIGNS = {
    Spacing.ADD: str.maketrans("。！？，、；：", ".!?,,;:"),
    Spacing.DROP: str.maketrans(".!?", "。！？"),
}


@dataclass(frozen=True)
class Separator:
    """The separator of two sentences of a line, if the translation may need another. `before`
    and `after` are the visible texts next to it, if these are not sentences."""

    text: str
    before: str = ""
    after: str = ""


#: Separates a sentence from the text at its edge. If this is invisible, the separator of two
#: sentences is enough.
EDGE = Separator("")

Sentence = TypeVar("Sentence")


def compare(source: str, target: str) -> Spacing:
    """Return the change that separators need in a translation from `source` into `target`."""
    has_spaces = [_UNSPACED.isdisjoint(SCRIPTS.get(t, ())) for t in (source, target)]
    if has_spaces[0] == has_spaces[1]:
        return Spacing.KEEP
    return Spacing.ADD if has_spaces[1] else Spacing.DROP


def find_separator(gap: str, spacing: Spacing) -> str | Separator:
    """Return the text between two sentences, as a separator if it may become another."""
    if spacing is Spacing.KEEP or gap not in _SEPARATORS:
        return gap
    return Separator(gap)


def rewrite(text: str, spacing: Spacing) -> str:
    """Return a sign between placeholders or tags in the target's form; other text unchanged."""
    signs = _SIGNS.get(spacing, {})
    return text.translate(signs) if len(text) == 1 and ord(text) in signs else text


def place(
    pieces: Iterable[str | Separator | Sentence], show: Callable[[str], str]
) -> Iterator[str | Separator | Sentence]:
    """Yield the pieces, with at most one separator between two visible ones, which records
    both. `show` returns the visible part of a string."""
    before: str | None = None
    #: The invisible pieces since then, and the index of the separator among them.
    waiting: list[str | Separator] = []
    at: int | None = None
    for piece in pieces:
        visible = show(piece) if isinstance(piece, str) else ""
        if isinstance(piece, Separator) and before is not None:
            if piece is EDGE and at is not None:
                continue
            if at is not None:
                waiting[at] = ""
            at = len(waiting)
            waiting.append(replace(piece, before=before))
        elif isinstance(piece, Separator):
            yield piece.text
        elif isinstance(piece, str) and not visible:
            waiting.append(piece)
        else:
            for each in waiting:
                yield each if isinstance(each, str) else replace(each, after=visible)
            yield piece
            before, waiting, at = visible, [], None
    yield from (other if isinstance(other, str) else other.text for other in waiting)


def separate(before: str, separator: str, after: str, spacing: Spacing) -> str:
    """Return the text between `before` and `after` in place of the separator."""
    if not before or not after:
        return separator
    if spacing is Spacing.ADD and separator in ("", "\u3000"):
        return " " if _is_word_end(before[-1]) and _is_word_start(after[0]) else ""
    if spacing is Spacing.DROP and _is_wide_sign(before[-1]):
        return ""
    return separator


def _is_word_end(character: str) -> bool:
    is_opening = unicodedata.category(character) in ("Ps", "Pi")
    return not (character.isspace() or is_opening or character in _BEFORE_WORD)


def _is_word_start(character: str) -> bool:
    is_closing = unicodedata.category(character) in ("Pe", "Pf")
    return not (character.isspace() or is_closing or character in _AFTER_WORD)


def _is_wide_sign(character: str) -> bool:
    """Whether a sign is as wide as a character, and so includes a space."""
    is_sign = unicodedata.category(character).startswith("P")
    is_wide = unicodedata.east_asian_width(character) in ("W", "F")
    return is_sign and (is_wide or character in _WIDE)
