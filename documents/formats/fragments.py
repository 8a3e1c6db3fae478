"""A sentence with its formatting as a fragment, and back: "Press **Start**." is
`Press <g id="1">Start</g>.`, and an image or a line break is `<x id="2"/>`. Elements have short
names such as `w:p`: a document may choose other prefixes, and the strict variants of Office
Open XML have other namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby
from typing import TypeAlias
from xml.sax.saxutils import escape

from lxml import etree

from documents.errors import LostMarkup
from documents.formats.format import has_letter

_MICROSOFT = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"

#: The families of Office Open XML, by prefix.
_FAMILIES = {
    "w": ("wordprocessingml", "main"),
    "a": ("drawingml", "main"),
    "c": ("drawingml", "chart"),
    "p": ("presentationml", "main"),
    "x": ("spreadsheetml", "main"),
}
#: The prefixes of short names, by namespace. Elements of other namespaces have none.
_PREFIXES = {
    **{f"{_MICROSOFT}/{x}/2006/{part}": p for p, (x, part) in _FAMILIES.items()},
    **{f"{_STRICT}/{x}/{part}": p for p, (x, part) in _FAMILIES.items()},
    **{f"{_OASIS}:{x}:1.0": x for x in "office text table style manifest".split()},
    f"{_OASIS}:drawing:1.0": "draw",
    f"{_OASIS}:container": "container",
    f"{_MICROSOFT}/package/2006/content-types": "types",
    "http://purl.org/dc/elements/1.1/": "dc",
    "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.w3.org/1999/xhtml": "h",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
    "http://www.w3.org/XML/1998/namespace": "xml",
}


@lru_cache(maxsize=4096)
def shorten(name: str) -> str:
    """`w:p` for `{namespace}p`; the name itself if the namespace is none of ours."""
    namespace, _, local = name.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(namespace)
    return f"{prefix}:{local}" if prefix else name


def name_of(element: etree._Element) -> str:
    """The short name of an element; empty for a comment or an instruction."""
    tag = element.tag
    return shorten(tag) if isinstance(tag, str) else ""


def attribute(element: etree._Element, name: str) -> str:
    """The value of the attribute with this short name, or an empty text."""
    values = (v for key, v in element.attrib.items() if shorten(str(key)) == name)
    return next((str(value) for value in values), "")


def beside(element: etree._Element, local: str) -> str:
    """The full name of what has this local name and an element's namespace."""
    return etree.QName(etree.QName(element).namespace, local).text


def find(element: etree._Element, name: str | None) -> etree._Element | None:
    """The first child with a short name."""
    return next((child for child in element if name_of(child) == name), None)


def describe(element: etree._Element) -> tuple[object, ...]:
    """An element without its text, as a value: the same for elements that say the same."""
    attributes = sorted((str(k), str(v)) for k, v in element.attrib.items())
    return (str(element.tag), *attributes, *map(describe, element))


Element: TypeAlias = etree._Element
#: A text that is a URL or an e-mail address and nothing else.
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+|[^\s@]+@[^\s@]+\.\w+", re.I
)
#: The most elements of a fragment that a message names.
_MOST_SHOWN = 50


@dataclass(frozen=True, eq=False)
class Atom:
    """A part without text: an image, a line break, a field. Each element has the style of
    the run that it is taken from, or None."""

    elements: tuple[tuple[Element, object], ...]


@dataclass(frozen=True, eq=False)
class Span:
    """A part of a sentence in something: a format, or a container such as a link."""

    shell: object
    parts: Sequence[Part]
    is_container: bool = False
    #: Spans with the same key that follow each other are one.
    key: object = None
    #: Whether it has text. It is found out once, as each span around it asks.
    is_filled: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_filled", has_text(self.parts))

    def fill(self, parts: Sequence[Part]) -> Span:
        """The same span with other parts."""
        return Span(self.shell, parts, self.is_container, self.key)


Part: TypeAlias = str | Atom | Span


@dataclass(frozen=True)
class Slot:
    """A text of a document, and what puts its translation in its place."""

    text: str
    #: Gets the translation and its language.
    write: Callable[[str, str], None]


def join(parts: Iterable[Part], tidy: Callable[[str], str] = str) -> list[Part]:
    """Joins parts that follow each other: texts, atoms, and spans with the same key. Each
    piece is copied once, as a paragraph may have a million."""
    groups = groupby((part for part in parts if part), _find_kind)
    return [_merge(list(group), tidy) for _, group in groups]


def _find_kind(part: Part) -> object:
    if isinstance(part, Span):
        return part if part.key is None else (Span, part.key)
    return type(part)


def _merge(parts: list[Part], tidy: Callable[[str], str]) -> Part:
    first = parts[0]
    if isinstance(first, str):
        return tidy("".join(part for part in parts if isinstance(part, str)))
    if len(parts) == 1:
        return first
    if isinstance(first, Atom):
        atoms = (part.elements for part in parts if isinstance(part, Atom))
        return Atom(tuple(chain.from_iterable(atoms)))
    inner = (part.parts for part in parts if isinstance(part, Span))
    return first.fill(join(chain.from_iterable(inner), tidy))


def make_parser() -> etree.XMLParser[Element]:
    """A parser that opens nothing, replaces no entity, and bounds depth and text."""
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        strip_cdata=False,
    )


def has_text(parts: Sequence[Part]) -> bool:
    """Whether anything but white space is in the text."""
    return any(
        part.is_filled
        if isinstance(part, Span)
        else isinstance(part, str) and part.strip()
        for part in parts
    )


def list_texts(parts: Sequence[Part]) -> Iterator[str]:
    """All pieces of text, in order."""
    return (part for part in _walk(parts) if isinstance(part, str))


def list_spans(parts: Sequence[Part]) -> list[Span]:
    """All spans, those in others first. An element that moves costs all that is in it: each is
    emptied in this order, and filled where it is written."""
    return [part for part in _walk(parts) if isinstance(part, Span)][::-1]


def _walk(parts: Sequence[Part]) -> Iterator[Part]:
    """All parts, also of spans, in order. What is deep costs no more than what is long."""
    waiting = [iter(parts)]
    while waiting:
        part = next(waiting[-1], None)
        if part is None:
            waiting.pop()
            continue
        yield part
        if isinstance(part, Span):
            waiting.append(iter(part.parts))


def write_fragment(parts: Sequence[Part]) -> str:
    """The fragment of a sentence. Elements have numbers from 1, in order."""
    numbers = {part: n for n, part in enumerate(_list_marks(parts), 1)}
    return _write(parts, numbers)


def _write(parts: Sequence[Part], numbers: dict[Atom | Span, int]) -> str:
    written = []
    for part in parts:
        if isinstance(part, str):
            written.append(escape(part))
        elif isinstance(part, Atom):
            written.append(f'<x id="{numbers[part]}"/>')
        else:
            inner = _write(part.parts, numbers)
            written.append(f'<g id="{numbers[part]}">{inner}</g>')
    return "".join(written)


def _list_marks(parts: Sequence[Part]) -> Iterator[Atom | Span]:
    return (part for part in _walk(parts) if not isinstance(part, str))


def read_fragment(fragment: str, parts: Sequence[Part]) -> list[Part]:
    """The parts of a translation, with the atoms and shells of the original's parts.

    Raises LostMarkup unless each element of the original is there once, and containers
    are where they were in each other.
    """
    marks = dict(enumerate(_list_marks(parts), 1))
    try:
        root = etree.fromstring(f"<t>{fragment}</t>".encode(), make_parser())
    except (etree.XMLSyntaxError, ValueError) as error:
        message = "A translation is not a well-formed fragment of XML"
        raise LostMarkup(message) from error
    found: list[int] = []
    read = _read(root, marks, found)
    if sorted(found) != sorted(marks):
        raise LostMarkup(
            f"A translation has the elements {_show(found)}, and its text has "
            f"{_show(marks)}: each must be there once"
        )
    if _place_containers(read) != _place_containers(parts):
        raise LostMarkup("A translation moves a link into or out of another element")
    return read


def _show(numbers: Iterable[int]) -> str:
    shown = sorted(numbers)
    return f"{shown[:_MOST_SHOWN]}{'…' if len(shown) > _MOST_SHOWN else ''}"


def _read(
    element: Element, marks: dict[int, Atom | Span], found: list[int]
) -> list[Part]:
    read: list[Part] = [element.text] if element.text else []
    for child in element:
        said = child.get("id") or ""
        number = int(said) if said.isascii() and said.isdigit() else 0
        mark, is_empty = marks.get(number), len(child) == 0 and not child.text
        found.append(number)
        if child.tag == "g" and isinstance(mark, Span):
            inner = _read(child, marks, found)
            read.append(mark.fill(inner))
        elif child.tag == "x" and isinstance(mark, Atom) and is_empty:
            read.append(mark)
        else:
            raise LostMarkup(
                f"A translation has an element {number} that is not its text's"
            )
        if child.tail:
            read.append(child.tail)
    return read


def _place_containers(parts: Sequence[Part]) -> set[tuple[int, int]]:
    """Each container with the one that it is in."""
    placed: set[tuple[int, int]] = set()

    def place(parts: Sequence[Part], owner: int) -> None:
        for part in parts:
            if isinstance(part, Span):
                inner = id(part.shell) if part.is_container else owner
                if part.is_container:
                    placed.add((inner, owner))
                place(part.parts, inner)

    place(parts, 0)
    return placed


def make_slots(
    parts: Sequence[Part], build: Callable[[Sequence[Part], str], None]
) -> list[Slot]:
    """The slot of a sentence, or none if it has no letter or is only an address. `build` gets
    all parts again, and their language.

    What stands before and after the text, and a format around all of it, is outside of
    the fragment.
    """
    filled = [n for n, part in enumerate(parts) if has_text([part])]
    if not filled:
        return []
    start, end = filled[0], filled[-1] + 1
    before, middle, after = parts[:start], parts[start:end], parts[end:]
    if len(middle) == 1 and isinstance(middle[0], Span):
        span = middle[0]
        return make_slots(
            span.parts,
            lambda inner, language: build(
                [*before, span.fill(inner), *after], language
            ),
        )
    text = "".join(list_texts(middle))
    if not has_letter(text) or _ADDRESS.fullmatch(text.strip()):
        return []

    def write(translation: str, language: str) -> None:
        build([*before, *read_fragment(translation, middle), *after], language)

    return [Slot(write_fragment(middle), write)]


def find_plain_slots(element: Element) -> list[Slot]:
    """The text of an element that has nothing else."""

    def build(parts: Sequence[Part], language: str) -> None:
        element.text = "".join(part for part in parts if isinstance(part, str))

    return make_slots([element.text or ""], build) if len(element) == 0 else []
