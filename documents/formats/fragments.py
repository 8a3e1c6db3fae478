"""A sentence with its formatting as a fragment, and back: "Press **Start**." is
`Press <g id="1">Start</g>.`, and an image or a line break is `<x id="2"/>`. Elements have short
names such as `w:p`: a document may choose other prefixes, and the strict variants of Office
Open XML have other namespaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby, starmap
from pathlib import Path
from typing import TypeAlias

import yaml
from lxml import etree

from documents.errors import LostMarkup
from documents.formats import inline
from documents.formats.format import has_letter
from documents.formats.inline import InlinePiece, PieceRole

_NAMES = yaml.safe_load(Path(__file__).with_name("namespaces.yaml").read_text("utf-8"))
#: The prefixes of short names, by namespace. Elements of other namespaces have none.
_PREFIXES = {each: prefix for prefix, names in _NAMES.items() for each in names.split()}


@lru_cache(maxsize=4096)
def shorten(name: str) -> str:
    """`w:p` for `{namespace}p`; the name itself for an unknown namespace."""
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


def describe(
    element: etree._Element, invisible: Set[str] = frozenset()
) -> tuple[object, ...]:
    """An element without its text, as a value: the same for elements that say the same, but for
    its attributes and children with these short names."""
    given = {shorten(str(key)): str(value) for key, value in element.attrib.items()}
    attributes = sorted((k, v) for k, v in given.items() if k not in invisible)
    children = (child for child in element if name_of(child) not in invisible)
    return (str(element.tag), *attributes, *map(describe, children))


Element: TypeAlias = etree._Element
#: A text that is a URL or an e-mail address and nothing else.
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+|[^\s@]+@[^\s@]+\.\w+", re.I
)


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
    return (part for part, _ in _walk(parts) if isinstance(part, str))


def list_spans(parts: Sequence[Part]) -> list[Span]:
    """All spans, those in others first. An element that moves costs all that is in it: each is
    emptied in this order, and filled where it is written."""
    walked = _walk(parts)
    return [part for part, is_end in walked if is_end and isinstance(part, Span)]


def _walk(parts: Sequence[Part]) -> Iterator[tuple[Part, bool]]:
    """All parts, also of spans, in order, and each span again at its end, which is told. What
    is deep costs no more than what is long."""
    waiting, opened = [iter(parts)], list[Span]()
    while waiting:
        part = next(waiting[-1], None)
        if part is not None:
            yield part, False
        if isinstance(part, Span):
            opened.append(part)
            waiting.append(iter(part.parts))
        elif part is None:
            waiting.pop()
            if opened:
                yield opened.pop(), True


def _describe_part(part: Part, is_end: bool) -> InlinePiece:
    if isinstance(part, str):
        return InlinePiece(part)
    if isinstance(part, Atom):
        return InlinePiece("", PieceRole.ALONE)
    return InlinePiece("", PieceRole.CLOSING if is_end else PieceRole.OPENING)


def write_fragment(parts: Sequence[Part]) -> str:
    """The fragment of a sentence. Elements have numbers from 1, in order."""
    return inline.write_fragment([*starmap(_describe_part, _walk(parts))])


def read_fragment(fragment: str, parts: Sequence[Part]) -> list[Part]:
    """The parts of a translation, with the atoms and shells of the original's parts.

    Raises LostMarkup unless each element of the original is there, and containers once and
    where they were in each other.
    """
    walked, seen = [*_walk(parts)], set[int]()
    opened: list[list[Part]] = [[]]
    pieces = [*starmap(_describe_part, walked)]
    for found in inline.split_fragment(fragment, pieces):
        if isinstance(found, str):
            opened[-1] += [found] if found else []
            continue
        part, is_end = walked[found]
        if not isinstance(part, Span):
            opened[-1].append(deepcopy(part) if found in seen else part)
            seen.add(found)
        elif is_end:
            inner = opened.pop()
            opened[-1].append(part.fill(inner))
        else:
            opened.append([])
    (read,) = opened
    if _place_containers(read) != _place_containers(parts):
        raise LostMarkup("A translation moves a link into or out of another element")
    return read


def _place_containers(parts: Sequence[Part]) -> Counter[tuple[int, int]]:
    """Each container with the one that it is in."""
    placed = Counter[tuple[int, int]]()
    owners = [0]
    for part, is_end in _walk(parts):
        if isinstance(part, Span) and part.is_container:
            if is_end:
                owners.pop()
            else:
                placed[id(part.shell), owners[-1]] += 1
                owners.append(id(part.shell))
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
