"""Converts a sentence with formatting to a fragment and back: "Press **Start**." becomes
`Press <g id="1">Start</g>.`, and an image or a line break `<x id="2"/>`. Elements have short
names such as `w:p`, as a document may choose other prefixes, and the strict variants of Office
Open XML have other namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, groupby, starmap
from pathlib import Path
from typing import TypeAlias

import yaml
from lxml import etree

from documents.formats import inline
from documents.formats.format import has_letter
from documents.formats.inline import InlinePiece, PieceRole

_NAMES = yaml.safe_load(Path(__file__).with_name("namespaces.yaml").read_text("utf-8"))
#: The prefixes of short names, by namespace. Elements of other namespaces have none.
_PREFIXES = {each: prefix for prefix, names in _NAMES.items() for each in names.split()}


@lru_cache(maxsize=4096)
def shorten(name: str) -> str:
    """Return `w:p` for `{namespace}p`, or the name itself for an unknown namespace."""
    namespace, _, local = name.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(namespace)
    return f"{prefix}:{local}" if prefix else name


def name_of(element: etree._Element) -> str:
    """Return the short name of an element, empty for a comment or an instruction."""
    tag = element.tag
    return shorten(tag) if isinstance(tag, str) else ""


def attribute(element: etree._Element, name: str) -> str:
    """Return the value of the attribute with this short name, or an empty string."""
    values = (v for key, v in element.attrib.items() if shorten(str(key)) == name)
    return next((str(value) for value in values), "")


def beside(element: etree._Element, local: str) -> str:
    """Return the full name for a local name in an element's namespace."""
    return etree.QName(etree.QName(element).namespace, local).text


def find(element: etree._Element, name: str | None) -> etree._Element | None:
    """Return the first child with a short name, or None."""
    return next((child for child in element if name_of(child) == name), None)


def describe(
    element: etree._Element, invisible: Set[str] = frozenset()
) -> tuple[object, ...]:
    """Return an element's structure without its text as a comparable value. Attributes and
    children with the short names in `invisible` are left out, and children that have only
    such attributes."""
    given = {shorten(str(key)): str(value) for key, value in element.attrib.items()}
    attributes = sorted((k, v) for k, v in given.items() if k not in invisible)
    children = [child for child in element if name_of(child) not in invisible]
    looks = [(child, describe(child, invisible)) for child in children]
    shown = (look for child, look in looks if look[1:] or not child.attrib)
    return (str(element.tag), *attributes, *shown)


Element: TypeAlias = etree._Element
#: A text that is only a URL or an e-mail address.
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+|[^\s@]+@[^\s@]+\.\w+", re.I
)


@dataclass(frozen=True, eq=False)
class Atom:
    """A part without text: an image, a line break, a field. Each element has the style of its
    original run, or None."""

    elements: tuple[tuple[Element, object], ...]


@dataclass(frozen=True, eq=False)
class Span:
    """A part of a sentence within a shell: a format, or a container, for example a link."""

    shell: object
    parts: Sequence[Part]
    #: Adjacent spans with the same key are joined.
    key: object = None
    #: Whether it has text; computed once, as each enclosing span needs it.
    is_filled: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_filled", has_text(self.parts))


Part: TypeAlias = str | Atom | Span


@dataclass(frozen=True)
class Slot:
    """A text of a document, and the function that replaces it with its translation."""

    text: str
    #: Called with the translation and its language.
    write: Callable[[str, str], None]


def join(parts: Iterable[Part], tidy: Callable[[str], str] = str) -> list[Part]:
    """Join adjacent texts, adjacent atoms, and adjacent spans with the same key. Each piece is
    copied only once, as a paragraph may have a million."""
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
    return replace(first, parts=join(chain.from_iterable(inner), tidy))


def has_text(parts: Sequence[Part]) -> bool:
    """Whether the text has more than white space."""
    return any(
        part.is_filled
        if isinstance(part, Span)
        else isinstance(part, str) and part.strip()
        for part in parts
    )


def list_texts(parts: Sequence[Part]) -> Iterator[str]:
    """Yield all pieces of text, in order."""
    return (part for part, _ in _walk(parts) if isinstance(part, str))


def list_spans(parts: Sequence[Part]) -> list[Span]:
    """List all spans, inner ones first. Moving an element costs time for all its content, so
    each is emptied in this order, and filled again where it is written."""
    walked = _walk(parts)
    return [part for part, is_end in walked if is_end and isinstance(part, Span)]


def _walk(parts: Sequence[Part]) -> Iterator[tuple[Part, bool]]:
    """Yield all parts in order, also those of spans, and each span again at its end, then with
    True. Depth costs no more than length."""
    waiting = [iter(parts)]
    opened = list[Span]()
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
    """Return the fragment of a sentence. Elements are numbered from 1, in order."""
    return inline.write_fragment([*starmap(_describe_part, _walk(parts))])


def read_fragment(fragment: str, parts: Sequence[Part]) -> list[Part]:
    """Return the parts of a translation, with the atoms and shells of the original's parts.
    Raises LostMarkup like `inline.split_fragment`."""
    walked = [*_walk(parts)]
    seen = set[int]()
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
            opened[-1].append(replace(part, parts=inner))
        else:
            opened.append([])
    (read,) = opened
    return read


def make_slots(
    parts: Sequence[Part], build: Callable[[Sequence[Part], str], None]
) -> list[Slot]:
    """Return the slot of a sentence, or none if it has no letter or is only an address. `build`
    is called with all parts of the translation, and its language. Parts before and after the
    text, and a format around all of it, stay out of the fragment."""
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
                [*before, replace(span, parts=inner), *after], language
            ),
        )
    text = "".join(list_texts(middle))
    if not has_letter(text) or _ADDRESS.fullmatch(text.strip()):
        return []

    def write(translation: str, language: str) -> None:
        build([*before, *read_fragment(translation, middle), *after], language)

    return [Slot(write_fragment(middle), write)]


def find_plain_slots(element: Element) -> list[Slot]:
    """Return the slot of an element without children."""

    def build(parts: Sequence[Part], language: str) -> None:
        element.text = "".join(part for part in parts if isinstance(part, str))

    return make_slots([element.text or ""], build) if len(element) == 0 else []
