"""Converts sentences with inline markup to XML fragments for translation, and back to the
markup of the document, which stays unchanged.

The Markdown `a **bold** word` is read as `a <g id="1">bold</g> word`.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from contract.markup import unescape
from documents.errors import LostMarkup
from documents.formats.format import has_letter

_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ELEMENT = re.compile(r'<g id="(\d+)">|<x id="(\d+)" ?/>|(</g>)|<')
_TAG = re.compile(r"</?([a-zA-Z][\w-]*+)[^>]*+>")
#: The maximum number of elements that a message names.
_MOST_SHOWN = 50


class PieceRole(Enum):
    """The role of a piece in its sentence."""

    TEXT = auto()
    OPENING = auto()
    CLOSING = auto()
    ALONE = auto()


@dataclass(frozen=True, slots=True)
class InlinePiece:
    """Text without its escapes, or `raw` markup. Opening and closing pieces with the same
    `name` can be a pair."""

    raw: str
    role: PieceRole = PieceRole.TEXT
    name: str = ""


def read_tag(raw: str) -> InlinePiece:
    """Return the piece of a tag. Any other markup stands alone."""
    tag = _TAG.fullmatch(raw)
    if not tag or raw.endswith("/>"):
        return InlinePiece(raw, PieceRole.ALONE)
    role = PieceRole.CLOSING if raw.startswith("</") else PieceRole.OPENING
    return InlinePiece(raw, role, f"<{tag[1].lower()}>")


def has_text(pieces: Sequence[InlinePiece]) -> bool:
    """Whether there is a letter in the pieces' text."""
    return any(p.role is PieceRole.TEXT and has_letter(p.raw) for p in pieces)


def write_fragment(pieces: Sequence[InlinePiece]) -> str:
    """Return the fragment to translate. Elements are numbered in order; markup without a
    partner becomes an empty element."""
    partners = _find_partners(pieces)
    written, numbers = [], 0
    for index, piece in enumerate(pieces):
        if piece.role is PieceRole.TEXT:
            written.append(escape(piece.raw))
        elif partners.get(index, index) < index:
            written.append("</g>")
        else:
            numbers += 1
            shape = '<g id="{}">' if index in partners else '<x id="{}"/>'
            written.append(shape.format(numbers))
    return "".join(written)


def read_fragment(
    fragment: str, pieces: Sequence[InlinePiece], escape_text: Callable[[str], str]
) -> str:
    """Return a translated fragment with the markup of `pieces`, and its text escaped by
    `escape_text`. Raises LostMarkup like `split_fragment`."""
    return "".join(
        escape_text(found) if isinstance(found, str) else pieces[found].raw
        for found in split_fragment(fragment, pieces)
    )


def split_fragment(fragment: str, pieces: Sequence[InlinePiece]) -> Iterator[str | int]:
    """Yield the unescaped texts of a translated fragment, and the indexes in `pieces` of the
    markup between them. Raises LostMarkup unless each element occurs once and is well-formed;
    the arms of a message may repeat elements."""
    partners = _find_partners(pieces)
    starts = (
        index
        for index, piece in enumerate(pieces)
        if piece.role is not PieceRole.TEXT and partners.get(index, index) >= index
    )
    places = {str(number): index for number, index in enumerate(starts, 1)}
    left = dict.fromkeys(places)
    opened: list[int] = []
    fragment = _CONTROLS.sub("", fragment)
    place = 0
    for found in _ELEMENT.finditer(fragment):
        yield unescape(fragment[place : found.start()])
        if found[3]:
            if not opened:
                raise _report("has an end tag without a start tag")
            index = partners[opened.pop()]
        else:
            number = found[1] or found[2] or ""
            can_be_here = number in left or "{" in fragment
            index = places.get(number, -1) if can_be_here else -1
            left.pop(number, None)
            if index < 0 or (index in partners) is not bool(found[1]):
                raise _report(f"has an extra element, {found[0]!r}")
            opened += [index] if found[1] else []
        yield index
        place = found.end()
    if left or opened:
        numbers = ", ".join([*left][:_MOST_SHOWN]) or "the last end tag"
        more = "…" if len(left) > _MOST_SHOWN else ""
        raise _report(f"lacks an element: {numbers}{more}")
    yield unescape(fragment[place:])


def escape(text: str) -> str:
    """Escape text for XML, without the control characters that XML forbids."""
    return html.escape(_CONTROLS.sub("", text), quote=False)


def _report(fault: str) -> LostMarkup:
    return LostMarkup(f"A translation {fault}; expected each element of its text once")


def _find_partners(pieces: Sequence[InlinePiece]) -> dict[int, int]:
    """Map each paired piece to its partner, by index. Pairs are nested or disjoint."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names = Counter[str]()
    for index, piece in enumerate(pieces):
        if piece.role is PieceRole.OPENING:
            opened.append(index)
            names[piece.name] += 1
        elif piece.role is PieceRole.CLOSING and names[piece.name]:
            # Pieces that opened after its partner remain without one.
            while pieces[partner := opened.pop()].name != piece.name:
                names[pieces[partner].name] -= 1
            names[piece.name] -= 1
            partners |= {partner: index, index: partner}
    return partners
