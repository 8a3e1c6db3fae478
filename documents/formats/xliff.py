"""XLIFF 1.2 and 2: each `<source>` without a translation gets one in its `<target>`. Ids,
states, notes, inline elements and everything else stay.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO

from contract.languages import normalize_variant
from contract.markup import ATTRIBUTE, Token, scan, take_element, unescape
from documents.errors import DamagedDocument
from documents.formats import inline
from documents.formats.blocks import ElementNames, split
from documents.formats.format import (
    Edit,
    has_letter,
    is_prose,
    make_format,
    name_language,
    read_whole,
    surround,
)
from documents.formats.inline import InlinePiece, PieceRole

_DECLARATION = re.compile(rb"""^<\?xml[^>]+encoding=["']([\w.:-]+)""")
_DECLARED = re.compile(r"^<\?xml[^>]+>")
_LANGUAGE = re.compile(r"""(?<=\sxml:lang=["'])[^"']*""")
_EMPTY_END = re.compile(r"\s*/>\Z")
_NO_BLOCKS = ElementNames(frozenset(), lambda _: [])
#: The white space of XML.
_SPACE = " \t\r\n"
_UNITS = frozenset(("trans-unit", "segment"))
#: Elements that can exclude their units from translation.
_SCOPES = frozenset(("file", "group", "unit", "trans-unit"))
#: Inline elements whose content is text; all others contain native code.
_PAIRS = frozenset(("g", "mrk", "pc"))
#: States of units that still need a translation.
_OPEN_STATES = frozenset(("new", "initial", "needs-translation"))
#: Elements with languages, and their attributes for source and target.
_LANGUAGES = {
    "file": ("source-language", "target-language"),
    "xliff": ("srcLang", "trgLang"),
}


@dataclass(frozen=True)
class _Content:
    """A source or target, from `start` to `end` of the file, with its content."""

    tag: Token
    start: int
    end: int
    raw: str
    pieces: list[InlinePiece]
    #: The white space before it.
    indent: str = ""


@dataclass
class _Unit:
    """A translation unit, as far as it has been read."""

    is_open: bool
    contents: dict[str, _Content] = field(default_factory=dict)


@dataclass
class _Reader:
    """A walk through the elements of a file that is known to be well-formed."""

    content: str
    #: Our code for the language; empty if the file does not name one.
    target_language: str = ""
    names: list[str] = field(default_factory=list)
    #: For each open scope, whether its units are translated.
    scopes: list[bool] = field(default_factory=lambda: [True])
    unit: _Unit | None = None

    def find_edits(self) -> Iterator[Edit]:
        tokens = scan(self.content, is_xml=True)
        place = 0
        before = ""
        for token in tokens:
            start = place
            place += len(token.raw)
            if token.is_text or not token.name:
                before = token.raw
                continue
            name = _shorten(token)
            if not self.names and token.is_start and name != "xliff":
                raise DamagedDocument("The file's first element is not <xliff>")
            if token.is_start:
                yield from self._find_language(token, start)
                is_content = name in ("source", "seg-source", "target")
                if self.unit and is_content and self.names[-1] in _UNITS:
                    found = _read_content(token, start, tokens, before)
                    self.unit.contents[name], place = found, found.end
                elif not token.is_empty:
                    self._enter(name, token)
            else:
                yield from self._leave(name)
            before = ""

    def _enter(self, name: str, token: Token) -> None:
        self.names.append(name)
        given = _read_attributes(token)
        if name in _SCOPES:
            is_header = given.get("restype") == "x-gettext-domain-header"
            said = "no" if is_header else given.get("translate")
            self.scopes.append(said == "yes" if said else self.scopes[-1])
        if name in _UNITS:
            self.unit = _Unit(is_open=given.get("state") in _OPEN_STATES)

    def _leave(self, name: str) -> Iterator[Edit]:
        self.names.pop()
        if name in _UNITS and self.unit:
            if self.scopes[-1]:
                yield from self._make_edits(self.unit)
            self.unit = None
        if name in _SCOPES:
            self.scopes.pop()

    def _find_language(self, token: Token, start: int) -> Iterator[Edit]:
        source, target = _LANGUAGES.get(_shorten(token), ("", ""))
        attributes = ATTRIBUTE.finditer(token.raw, len(token.name) + 1)
        places = {found[1]: found for found in attributes}
        if (given := places.get(target)) and (group := given.lastindex):
            old = given[group]
            self.target_language = normalize_variant(old)
            first, last = (start + place for place in given.span(group))
            yield Edit(first, last, (), lambda _, new: name_language(old, new))
        elif given := places.get(source):
            self.target_language = ""
            end = start + given.end()
            yield Edit(end, end, (), lambda _, new: f' {target}="{new}"')

    def _make_edits(self, unit: _Unit) -> Iterator[Edit]:
        source = unit.contents.get("seg-source") or unit.contents.get("source")
        if source is None or not source.raw:
            return
        said = " ".join(p.raw for p in source.pieces if p.role is PieceRole.TEXT)
        if has_letter(said) and not is_prose(said):
            return  # Symfony has keys as sources
        prefix = source.tag.name.removesuffix(_shorten(source.tag))
        end = source.end
        made = Token(f"<{prefix}target>", f"{prefix}target")
        target = unit.contents.get("target") or _Content(made, end, end, "", [])
        opening = _EMPTY_END.sub(">", target.tag.raw)
        if target.tag is made:
            opening = unit.contents.get("source", source).indent + opening
        state = _read_attributes(target.tag).get("state")
        is_open = unit.is_open or state in _OPEN_STATES or target.raw == source.raw
        language = self.target_language
        fragment = inline.write_fragment(source.pieces).strip(_SPACE)
        texts = (fragment,) if has_letter(said) else ()
        # A new target may have the source's segments, without their texts.
        is_filled = any(
            piece.raw.strip()
            for piece in target.pieces
            if not texts or piece.role is PieceRole.TEXT
        )

        def is_done(wanted: str) -> bool:
            return is_filled and language in ("", wanted) and not is_open

        def write(new: Sequence[str], wanted: str) -> str:
            inner = source.raw
            start = _LANGUAGE.sub(lambda old: name_language(old[0], wanted), opening)
            if new:
                read = inline.read_fragment(new[0], source.pieces, inline.escape)
                inner = surround(inner, read, _SPACE)
            return f"{start}{inner}</{target.tag.name}>"

        yield Edit(target.start, target.end, texts, write, is_done)


def find_edits(content: str) -> Iterator[Edit]:
    """Return the edits of a file, in order. Raises DamagedDocument if it is not XLIFF, and
    RefusedContent for entities and for elements nested too deep."""
    # The content is UTF-8 here, despite any declaration.
    data = _DECLARED.sub("", content).encode("utf-8", "surrogateescape")
    for _ in split(BytesIO(data), _NO_BLOCKS, "The file"):
        pass  # it checks the limits of all XML
    return _Reader(content).find_edits()


def _shorten(token: Token) -> str:
    return token.name.rpartition(":")[2]


def _read_attributes(token: Token) -> dict[str, str]:
    found = ATTRIBUTE.finditer(token.raw, len(token.name) + 1)
    return {each[1]: unescape(each[each.lastindex or 1]) for each in found}


def _read_content(
    token: Token, start: int, rest: Iterator[Token], before: str
) -> _Content:
    """Read the source or target that begins with `token`, after the text `before`."""
    raw = [token.raw]
    pieces = list[InlinePiece]()
    for inner in () if token.is_empty else rest:
        is_end = inner.name == token.name and not inner.is_start
        piece = InlinePiece(inner.raw) if is_end else _read_piece(inner, rest)
        raw.append(inner.raw if piece.role is PieceRole.TEXT else piece.raw)
        if is_end:
            break
        pieces.append(piece)
    end = start + sum(map(len, raw))
    indent = before if before.isspace() else ""
    return _Content(token, start, end, "".join(raw[1:-1]), pieces, indent)


def _read_piece(token: Token, rest: Iterator[Token]) -> InlinePiece:
    if token.is_text:
        return InlinePiece(unescape(token.raw))
    if token.raw.startswith("<![CDATA["):
        return InlinePiece(token.raw[9:-3])
    name = _shorten(token)
    if not token.name or token.is_empty:
        return InlinePiece(token.raw, PieceRole.ALONE)
    if not token.is_start:
        return InlinePiece(token.raw, PieceRole.CLOSING, token.name)
    is_protected = _read_attributes(token).get("mtype") == "protected"
    if name in _PAIRS and not token.is_kept and not is_protected:
        return InlinePiece(token.raw, PieceRole.OPENING, token.name)
    return InlinePiece(take_element(token, rest, is_xml=True), PieceRole.ALONE)


FORMAT = make_format(
    (".xliff", ".xlf"),
    "application/xliff+xml",
    "xml",
    read_whole(find_edits),
    declaration=_DECLARATION,
    has_numbers=True,
)
