"""Web pages: text and the attributes that people read or hear. Tags, scripts, comments and
white space stay.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from contract import markup
from contract.markup import INLINE, VOID, Token
from documents.formats import inline
from documents.formats.format import (
    LOST_READINGS,
    Edit,
    has_letter,
    make_format,
    name_language,
    read_whole,
    split_edges,
)
from documents.formats.inline import InlinePiece, PieceRole

_DECLARATION = re.compile(
    rb"""(?:<meta[^>]+charset\s*=\s*["']?|^\s*<\?xml[^>]+encoding\s*=\s*["'])\s*"""
    rb"(?P<label>[\w.:-]+)",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_READ = frozenset(
    "abbr alt aria-description aria-label aria-placeholder label placeholder title".split()
)
#: Attributes with the language of a page.
_LANGUAGES = frozenset(("lang", "xml:lang"))
_BUTTONS = frozenset("button reset submit".split())
#: The names of a page's summaries for search engines and social networks.
_SUMMARIES = frozenset(
    """description og:description og:image:alt og:title twitter:description
    twitter:image:alt twitter:title""".split()
)


@dataclass(frozen=True, slots=True)
class _Attribute:
    """The value of an attribute, from `start` to `end` of the page."""

    name: str
    start: int
    end: int
    text: str
    quote: str

    def write(self, translation: str) -> str:
        """Return a translated fragment as a value."""
        value = markup.unescape(translation).replace("&", "&amp;").replace("<", "&lt;")
        if self.quote:
            entity = "&quot;" if self.quote == '"' else "&#39;"
            return value.replace(self.quote, entity)
        return '"{}"'.format(value.replace('"', "&quot;"))

    def make_edit(self) -> Edit:
        old = self.text
        place = (self.start, self.end)
        if self.name in _LANGUAGES:
            return Edit(*place, (), lambda _, new: name_language(old, new))
        fragment = inline.escape(old)
        return Edit(*place, (fragment,), lambda new, _: self.write(new[0]))


@dataclass(frozen=True, slots=True)
class _Part:
    """Text or inline markup of a sentence, with its start in the page."""

    start: int
    raw: str
    token: Token
    attributes: list[_Attribute]
    #: Whether a translation loses it.
    is_lost: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    def make_piece(self, values: Iterable[str] = ()) -> InlinePiece:
        """Return the piece of the sentence, with new values of attributes if there are any."""
        if self.is_lost:
            return InlinePiece("")
        if self.token.is_text:
            return InlinePiece(_SPACE.sub(" ", markup.unescape(self.raw)))
        written, place = [], 0
        for attribute, value in zip(self.attributes, values, strict=False):
            start, end = attribute.start - self.start, attribute.end - self.start
            written += [self.raw[place:start], attribute.write(value)]
            place = end
        raw = "".join(written) + self.raw[place:]
        if self.token.is_kept or self.token.name in VOID:
            return InlinePiece(raw, PieceRole.ALONE)
        role = PieceRole.OPENING if self.token.is_start else PieceRole.CLOSING
        return InlinePiece(raw, role, self.token.name)


def find_edits(page: str) -> Iterator[Edit]:
    """Yield the edits of a page, in order."""
    sentence: list[_Part] = []
    tokens = markup.scan(page)
    place = 0
    for token, is_lost in markup.find_ruby(tokens):
        start = place
        is_whole = token.is_kept and token.name not in VOID
        raw = markup.take_element(token, tokens) if is_whole else token.raw
        place += len(raw)
        attributes = [] if is_lost else _find_attributes(token, start)
        # Text and comments have no name; React writes them between words.
        if not token.name or token.name in INLINE:
            sentence.append(_Part(start, raw, token, attributes, is_lost))
            continue
        yield from _make_edits(sentence)
        sentence = []
        yield from (attribute.make_edit() for attribute in attributes)
    yield from _make_edits(sentence)


def _make_edits(sentence: list[_Part]) -> Iterator[Edit]:
    attributes = [each for part in sentence for each in part.attributes]
    parts = _strip(deque(sentence))
    pieces = [part.make_piece() for part in parts]
    if not inline.has_text(pieces):
        yield from (attribute.make_edit() for attribute in attributes)
        return

    def write(new: Sequence[str], _: str) -> str:
        values = iter(new[1:])
        written = [part.make_piece(values) for part in parts]
        return inline.read_fragment(new[0], written, _escape)

    texts = (
        inline.write_fragment(pieces),
        *(inline.escape(each.text) for each in attributes),
    )
    warning = LOST_READINGS if any(part.is_lost for part in parts) else ""
    yield Edit(parts[0].start, parts[-1].end, texts, write, warning=warning)


def _strip(parts: deque[_Part]) -> deque[_Part]:
    """Remove the white space, comments and the like at both ends of the parts."""
    for index in (0, -1):
        while parts and (
            parts[index].make_piece().raw.isspace()
            or not (parts[index].token.is_text or parts[index].token.name)
        ):
            del parts[index]
        if parts and (part := parts[index]).token.is_text:
            before, inner, after = split_edges(part.raw)
            start = part.start + (0 if index else len(before))
            raw = before + inner if index else inner + after
            parts[index] = replace(part, start=start, raw=raw)
    return parts


def _find_attributes(token: Token, start: int) -> list[_Attribute]:
    is_read = token.is_start and (not token.is_kept or token.name == "textarea")
    if not is_read or markup.is_refused(token.raw):
        return []
    found = list(_read_attributes(token, start))
    given = {each.name: each.text.lower() for each in found}
    summary = given.get("name", given.get("property"))
    read = set(_READ)
    if token.name == "html":
        read |= _LANGUAGES
    if token.name == "input" and given.get("type") in _BUTTONS:
        read.add("value")
    if token.name == "meta" and summary in _SUMMARIES:
        read.add("content")
    return [
        each
        for each in found
        if each.name in read and (each.name in _LANGUAGES or has_letter(each.text))
    ]


def _read_attributes(token: Token, start: int) -> Iterator[_Attribute]:
    """Yield the attributes of a tag that have a value, without the white space around it."""
    for found in markup.ATTRIBUTE.finditer(token.raw, len(token.name) + 1):
        group = found.lastindex or 1
        if group > 1:
            quote = {2: '"', 3: "'"}.get(group, "")
            value = found[group].strip()
            first = start + found.start(group) + found[group].find(value)
            last = first + len(value)
            new = markup.unescape(value)
            yield _Attribute(found[1].lower(), first, last, new, quote)


def _escape(text: str) -> str:
    """Escape text. XHTML knows numeric references, but not `&nbsp;`."""
    return inline.escape(text).replace("\u00a0", "&#160;")


FORMAT = make_format(
    (".html", ".htm"),
    "text/html",
    "xml",
    read_whole(find_edits),
    declaration=_DECLARATION,
    has_numbers=True,
)
