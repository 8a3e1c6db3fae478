"""Reads HTML and XML as runs of text with placeholders. Every character of the input is in
exactly one run, so untranslated parts are preserved exactly, except HTML's ruby text.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from xml.parsers import expat

from contract.markup import INLINE, VOID, Token, find_ruby, scan, take_element, unescape
from text.errors import NotWellFormed
from text.messages import TRACE
from text.options import Tags
from text.placeholders import Placeholder, Role

#: A reference to a character, or to an entity that the document defines.
_REFERENCE = re.compile(r"(&(?:#\d{1,7}|#x[\da-fA-F]{1,6}|[^\W\d][\w.:-]{0,100}+);)")
#: The only entities that every XML document has.
_ENTITIES = frozenset({"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"})
_ROOT = "<_._>"
#: An XML document with a declaration already has a root.
_PROLOGUE = re.compile(r"\s*<(?:\?xml\s|!DOCTYPE)")
#: Text without its escapes, or markup to keep; the role of a placeholder inside a sentence; and
#: whether it is markup between sentences.
_Piece = tuple[str, Role | None, bool]


@dataclass(frozen=True)
class Run:
    """A stretch of text with inline tags as placeholders. If it `is_markup`, it is kept."""

    text: str
    placeholders: tuple[Placeholder, ...] = ()
    is_markup: bool = False


def parse_markup(source: str, tags: Tags) -> list[Run]:
    """Parse an HTML or XML document or fragment into runs, in order. In XML, the document's
    outline determines which elements are part of a sentence.

    Text is unescaped; `escape_html` and `escape_xml` reverse that. Nothing is refused: like a
    browser, the parser keeps bad markup or treats it as text. To require XML, call `check_xml`
    first.
    """
    runs = list[Run]()
    for is_markup, pieces in groupby(_list_pieces(source, tags), itemgetter(2)):
        texts, placeholders, length = list[str](), list[Placeholder](), 0
        for text, role, _ in pieces:
            if role:
                placeholders.append(Placeholder(length, length, text, role))
            else:
                texts.append(text)
                length += len(text)
        runs.append(Run("".join(texts), tuple(placeholders), is_markup))
    return runs


def _list_pieces(source: str, tags: Tags) -> Iterator[_Piece]:
    tokens = list(scan(source, is_xml=tags.is_xml))
    inline = _find_inline(tokens, tags)
    rest = iter(enumerate(find_ruby(tokens)))
    for index, (token, is_ruby) in rest:
        if is_ruby and not (tags.is_xml or token.name in tags.ignored):
            continue  # a translation loses the readings of words
        if token.is_text:
            yield from _read_text(token.raw, tags)
            continue
        is_ignored = token.is_start and token.name in tags.ignored
        is_void = token.name in VOID and not tags.is_xml
        is_empty = is_void or (token.is_empty and (tags.is_xml or is_ignored))
        raw = token.raw
        role = Role.OPENING if token.is_start else Role.CLOSING
        if is_empty or not token.name:
            role = Role.LOOSE
        if token.is_kept or is_ignored:
            role = Role.LOOSE if token.name == "svg" else Role.WORD
            if not is_empty:
                others = (other for _, (other, _) in rest)
                raw = take_element(token, others, is_xml=tags.is_xml)
        yield (raw, role, False) if raw and index in inline else (raw, None, True)


def strip(source: str, tags: Tags) -> str:
    """Return the text of HTML or XML to translate, without its tags."""
    return " ".join(run.text for run in parse_markup(source, tags) if not run.is_markup)


def escape_html(text: str) -> str:
    """Escape text for HTML."""
    return escape_xml(text).replace("\u00a0", "&nbsp;")


def escape_xml(text: str) -> str:
    """Escape text for XML."""
    return html.escape(text, quote=False)


def show(source: str) -> str:
    """Return the visible text of a piece of HTML, with `<br>` as a line break."""
    shown = (
        "\n" if t.name == "br" else t.raw if t.is_text else "" for t in scan(source)
    )
    return unescape("".join(shown))


def check_xml(source: str) -> None:
    """Raise NotWellFormed unless `source` is an XML document, or a part of one."""
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse_entity
    has_root = _PROLOGUE.match(source) is not None
    try:
        parser.Parse(source if has_root else f"{_ROOT}{source}</_._>", True)
    except expat.ExpatError as error:
        column = error.offset + 1
        if error.lineno == 1 and not has_root:
            column -= len(_ROOT)
        place = f"at line {error.lineno}, column {column}"
        raise NotWellFormed(f"{expat.ErrorString(error.code)} {place}") from error


def _refuse_entity(name: str, *_: object) -> None:
    raise NotWellFormed(f"it declares the entity {name[:40]!r}, expected none")


def _read_text(raw: str, tags: Tags) -> Iterator[_Piece]:
    """Unescape text. Entities that an XML document defines are preserved."""
    if not tags.is_xml:
        yield unescape(raw), None, False
        return
    for number, piece in enumerate(_REFERENCE.split(raw)):
        if number % 2 and piece not in _ENTITIES and not piece.startswith("&#"):
            yield piece, Role.WORD, False
        else:
            yield html.unescape(piece) if number % 2 else piece, None, False


@dataclass
class _Element:
    """An open element: its children's tags, and whether text is directly inside it."""

    name: str = ""
    tags: list[int] = field(default_factory=list)
    has_text: bool = False


def _find_inline(tokens: list[Token], tags: Tags) -> set[int]:
    """Return the indexes of the tags that do not end a sentence: in XML, those next to text."""
    if not tags.is_xml:
        # Comments have no name; React writes them between words.
        inline = INLINE.union(tags.inline, ("",)).difference(tags.splitting)
        known = {index for index, token in enumerate(tokens) if token.name in inline}
        return known | _find_in_messages(tokens)
    opened = [_Element()]
    names = Counter[str]()
    elements = [*opened]
    for index, token in enumerate(tokens):
        if token.is_text:
            opened[-1].has_text |= bool(token.raw.strip())
            continue
        while not token.is_start and names[token.name]:
            name = opened.pop().name
            names[name] -= 1
            if name == token.name:
                break
        opened[-1].tags.append(index)
        if token.is_start and not token.is_empty:
            opened.append(_Element(token.name))
            elements.append(opened[-1])
            names[token.name] += 1
    found = {tag for each in elements if each.has_text for tag in each.tags}
    for index, token in enumerate(tokens):
        if token.name in tags.splitting:
            found.discard(index)
        elif token.name in tags.inline or not (tags.finds_outline or token.is_text):
            found.add(index)
    return found


def _find_in_messages(tokens: list[Token]) -> set[int]:
    """Return the indexes of all tags inside messages, such as `{n, plural, other {a<br>b}}`."""
    found, inside, depth = set[int](), list[int](), 0
    for index, token in enumerate(tokens):
        if depth and not token.is_text:
            inside.append(index)
        elif depth or (token.is_text and TRACE.search(token.raw)):
            depth += token.raw.count("{") - token.raw.count("}")
            if depth <= 0:
                found.update(inside)
                inside, depth = [], 0
    return found
