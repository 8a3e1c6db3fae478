"""Reads XML as runs of text with placeholders, as `html_runs` reads HTML. Which elements are
part of a sentence, the document's own outline tells.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from contract.markup import Token, scan, take_element
from text.errors import NotWellFormed
from text.html_runs import Builder, Run
from text.options import Tags
from text.placeholders import Role

#: A reference to a character, or to an entity of the document's own.
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#x[\da-fA-F]{1,6}|[^\W\d][\w.:-]{0,100}+);")
#: The only entities that every document has.
_ENTITIES = frozenset({"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"})
_ROOT = "<_._>"
#: A document with a declaration has a root of its own.
_PROLOGUE = re.compile(r"\s*<(?:\?xml\s|!DOCTYPE)")


def check(source: str) -> None:
    """Raises NotWellFormed unless `source` is an XML document, or a part of one."""
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse_entity
    has_root = _PROLOGUE.match(source) is not None
    try:
        parser.Parse(source if has_root else f"{_ROOT}{source}</_._>", True)
    except expat.ExpatError as error:
        column = error.offset + 1
        if error.lineno == 1 and not has_root:
            column -= len(_ROOT)
        said = expat.ErrorString(error.code)
        raise NotWellFormed(
            f"{said} at line {error.lineno}, column {column}"
        ) from error


def _refuse_entity(name: str, *_: object) -> None:
    raise NotWellFormed(f"it declares the entity {name[:40]!r}, expected none")


def parse(source: str, tags: Tags) -> list[Run]:
    """The runs of an XML document or fragment, in order. Text is unescaped; `escape` reverses
    that. Nothing is refused; call `check` first where XML is expected.
    """
    tokens = list(scan(source, is_xml=True))
    inline = _find_inline(tokens, tags)
    builder = Builder()
    rest = iter(enumerate(tokens))
    for index, token in rest:
        if token.is_text:
            _add_text(builder, token.raw)
        elif token.is_start and (token.is_kept or token.name in tags.ignored):
            others = (other for _, other in rest)
            raw = token.raw if token.is_empty else _take(token, others)
            _add(builder, raw, Role.WORD, is_inline=index in inline)
        else:
            _add(builder, token.raw, _find_role(token), is_inline=index in inline)
    return builder.finish()


def escape(text: str) -> str:
    """Text in the form that XML needs."""
    return html.escape(text, quote=False)


def _take(token: Token, others: Iterator[Token]) -> str:
    return take_element(token, others, is_xml=True)


def _find_role(token: Token) -> Role:
    if not token.name or token.is_empty:
        return Role.LOOSE
    return Role.OPENING if token.is_start else Role.CLOSING


def _add(builder: Builder, raw: str, role: Role, *, is_inline: bool) -> None:
    if is_inline:
        builder.add_placeholder(raw, role)
    else:
        builder.add_markup(raw)


def _add_text(builder: Builder, raw: str) -> None:
    """An entity that only the document knows is preserved."""
    start = 0
    for found in _REFERENCE.finditer(raw):
        builder.add_text(raw[start : found.start()])
        if found[0] in _ENTITIES or found[0].startswith("&#"):
            builder.add_text(html.unescape(found[0]))
        else:
            builder.add_placeholder(found[0], Role.WORD)
        start = found.end()
    builder.add_text(raw[start:])


@dataclass
class _Element:
    """An element that is being read: the places of its children's tags, and whether it has
    text of its own."""

    name: str = ""
    tags: list[int] = field(default_factory=list)
    has_text: bool = False


def _find_inline(tokens: list[Token], tags: Tags) -> set[int]:
    """The places of the tags that do not end a sentence: those beside text."""
    found: set[int] = set()
    opened, names = [_Element()], Counter[str]()
    for index, token in enumerate(tokens):
        if token.is_text:
            opened[-1].has_text |= bool(token.raw.strip())
            continue
        while not token.is_start and names[token.name]:
            element = opened.pop()
            names[element.name] -= 1
            _close(element, found)
            if element.name == token.name:
                break
        opened[-1].tags.append(index)
        if token.is_start and not token.is_empty:
            opened.append(_Element(token.name))
            names[token.name] += 1
    for element in opened:
        _close(element, found)
    for index, token in enumerate(tokens):
        if token.name in tags.splitting:
            found.discard(index)
        elif token.name in tags.inline or not (tags.finds_outline or token.is_text):
            found.add(index)
    return found


def _close(element: _Element, found: set[int]) -> None:
    if element.has_text:
        found.update(element.tags)
