"""Web pages: text and the attributes that people read or hear. Tags, scripts, comments and
white space stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from contract.markup import ATTRIBUTE, INLINE, VOID, Token, scan, take_element, unescape
from documents.formats import inline
from documents.formats.format import (
    Edit,
    has_letter,
    make_format,
    name_language,
    split_edges,
)
from documents.formats.inline import InlinePiece, PieceRole

_DECLARATION = re.compile(
    rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w.:-]+)|^<\?xml[^>]+encoding=["']([\w.:-]+)""",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_READ = frozenset(
    "abbr alt aria-description aria-label aria-placeholder label placeholder title".split()
)
_BUTTONS = frozenset("button reset submit".split())
#: The names of a page's summaries for search engines and social networks.
_SUMMARIES = frozenset(
    """description og:description og:image:alt og:title twitter:description
    twitter:image:alt twitter:title""".split()
)


@dataclass(frozen=True, slots=True)
class _Attribute:
    """The value of an attribute, from `start` to `end` of the page."""

    start: int
    end: int
    text: str
    quote: str

    def write(self, translation: str) -> str:
        value = translation.replace("&", "&amp;").replace("<", "&lt;")
        if self.quote:
            entity = "&quot;" if self.quote == '"' else "&#39;"
            return value.replace(self.quote, entity)
        return '"{}"'.format(value.replace('"', "&quot;"))

    def make_edit(self) -> Edit:
        texts = (self.text,)
        return Edit(self.start, self.end, texts, lambda new, _: self.write(new[0]))

    def make_language_edit(self) -> Edit:
        old = self.text
        return Edit(self.start, self.end, (), lambda _, new: name_language(old, new))


@dataclass
class _Sentences:
    """Text and inline markup between two tags that end a sentence."""

    page: str
    #: Each piece with its start and end in the page.
    pieces: list[tuple[int, int, InlinePiece]] = field(default_factory=list)
    #: Each tag's, by its start in the page.
    attributes: dict[int, list[_Attribute]] = field(default_factory=dict)

    def add_tag(
        self, start: int, piece: InlinePiece, attributes: list[_Attribute]
    ) -> None:
        self.pieces.append((start, start + len(piece.raw), piece))
        if attributes:
            self.attributes[start] = attributes

    def add_text(self, start: int, raw: str) -> None:
        self.pieces.append((start, start + len(raw), _read_text(raw)))

    def make_edits(self) -> Iterator[Edit]:
        """The edits of what is here, which is then empty."""
        pieces, owned = self._strip(), self.attributes
        self.pieces, self.attributes = [], {}
        attributes = list(chain.from_iterable(owned.values()))
        if not inline.has_text([piece for _, _, piece in pieces]):
            yield from (attribute.make_edit() for attribute in attributes)
            return

        def write(new: Sequence[str], _: str) -> str:
            values = iter(new[1:])
            written = [
                self._insert(start, end, piece, zip(owned[start], values, strict=False))
                if start in owned
                else piece
                for start, end, piece in pieces
            ]
            return inline.read_fragment(new[0], written, _escape)

        text = inline.write_fragment([piece for _, _, piece in pieces])
        texts = (text, *(attribute.text for attribute in attributes))
        yield Edit(pieces[0][0], pieces[-1][1], texts, write)

    def _strip(self) -> list[tuple[int, int, InlinePiece]]:
        pieces = list(self.pieces)
        for index in (0, -1):
            while pieces and pieces[index][2].raw.isspace():
                del pieces[index]
            if not pieces or pieces[index][2].role is not PieceRole.TEXT:
                continue
            start, end, _ = pieces[index]
            before, _, after = split_edges(self.page[start:end])
            if index == 0:
                start += len(before)
            else:
                end -= len(after)
            pieces[index] = start, end, _read_text(self.page[start:end])
        return pieces

    def _insert(
        self,
        start: int,
        end: int,
        piece: InlinePiece,
        values: Iterable[tuple[_Attribute, str]],
    ) -> InlinePiece:
        written, place = [], start
        for attribute, value in values:
            written += [self.page[place : attribute.start], attribute.write(value)]
            place = attribute.end
        raw = "".join(written) + self.page[place:end]
        return InlinePiece(raw, piece.role, piece.name)


def _read_text(raw: str) -> InlinePiece:
    return InlinePiece(_SPACE.sub(" ", unescape(raw)))


def find_edits(page: str) -> Iterator[Edit]:
    """The edits of a page, in order."""
    sentences = _Sentences(page)
    tokens, place = scan(page), 0
    for token in tokens:
        start = place
        is_whole = token.is_kept and token.name not in VOID
        raw = take_element(token, tokens) if is_whole else token.raw
        place += len(raw)
        if token.is_text:
            sentences.add_text(start, raw)
            continue
        attributes = _find_attributes(token, start)
        if token.name in INLINE:
            piece = InlinePiece(raw, _find_role(token), token.name)
            sentences.add_tag(start, piece, attributes)
        else:
            yield from sentences.make_edits()
            is_page = token.name == "html" and token.is_start
            named = _read_attributes(token, start) if is_page else ()
            said = (each for name, each in named if name in ("lang", "xml:lang"))
            yield from (attribute.make_language_edit() for attribute in said)
            yield from (attribute.make_edit() for attribute in attributes)
    yield from sentences.make_edits()


def _find_role(token: Token) -> PieceRole:
    if token.is_kept or token.name in VOID:
        return PieceRole.ALONE
    return PieceRole.OPENING if token.is_start else PieceRole.CLOSING


def _find_attributes(token: Token, start: int) -> list[_Attribute]:
    if not token.is_start or (token.is_kept and token.name != "textarea"):
        return []
    found = list(_read_attributes(token, start))
    given = {name: attribute.text.lower() for name, attribute in found}
    summary = given.get("name", given.get("property"))
    read = set(_READ)
    if token.name == "input" and given.get("type") in _BUTTONS:
        read.add("value")
    if token.name == "meta" and summary in _SUMMARIES:
        read.add("content")
    return [
        attribute
        for name, attribute in found
        if name in read and has_letter(attribute.text)
    ]


def _read_attributes(token: Token, start: int) -> Iterator[tuple[str, _Attribute]]:
    """The attributes of a tag with a value, without the white space around it."""
    for found in ATTRIBUTE.finditer(token.raw, len(token.name) + 1):
        group = found.lastindex or 1
        if group > 1:
            quote = {2: '"', 3: "'"}.get(group, "")
            value = found[group].strip()
            first = start + found.start(group) + found[group].find(value)
            text = unescape(value)
            yield found[1].lower(), _Attribute(first, first + len(value), text, quote)


def _escape(text: str) -> str:
    """A number is known to XHTML as well, `&nbsp;` is not."""
    return inline.escape(text).replace("\u00a0", "&#160;")


FORMAT = make_format(
    (".html", ".htm"),
    "text/html",
    "xml",
    find_edits,
    declaration=_DECLARATION,
    errors="xmlcharrefreplace",
)
