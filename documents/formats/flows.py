"""Content in which text and elements are mixed, as in XHTML and OpenDocument: the text between
two blocks is a sentence, with the inline elements in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from documents.formats.format import Languages
from documents.formats.fragments import (
    Atom,
    Element,
    Part,
    Slot,
    Span,
    has_text,
    make_slot,
)
from documents.formats.names import name_of

#: Both formats take any of it for one space.
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")


class Role(Enum):
    """What an element is in a text."""

    #: Its content is part of the sentence: bold text, a link.
    SPAN = auto()
    #: Its content is part of the sentence, and the element is lost in a translation.
    CLEAR = auto()
    #: It stays as it is.
    ATOM = auto()
    #: It is lost in a translation: what is about the text as it was.
    STALE = auto()
    #: It is in no sentence, and has sentences of its own.
    BLOCK = auto()
    #: It is in no sentence, and has none.
    KEPT = auto()


@dataclass(frozen=True)
class Kind:
    """The role of an element. Spans with the same key that follow each other are joined."""

    role: Role
    key: object = None


Stretch: TypeAlias = "list[Part] | Element"


@dataclass(frozen=True)
class Flow:
    """Finds the texts of elements; `classify` knows the vocabulary."""

    classify: Callable[[Element], Kind]
    #: Spans that must not be in each other.
    links: frozenset[str]

    def find_slots(self, element: Element) -> Iterator[Slot]:
        """The texts of an element and of the blocks in it, in order."""
        stretches = list(self._divide(element))
        for number, stretch in enumerate(stretches):
            if isinstance(stretch, list):
                slot = self._make_slot(element, stretches, number)
                yield from [slot] if slot else []
            elif self.classify(stretch).role is Role.BLOCK:
                yield from self.find_slots(stretch)

    def _make_slot(
        self, element: Element, stretches: list[Stretch], number: int
    ) -> Slot | None:
        def build(parts: Sequence[Part], languages: Languages) -> None:
            stretches[number] = list(parts)
            _fill(element, stretches)

        parts = stretches[number]
        return make_slot(parts, build) if isinstance(parts, list) else None

    def _divide(self, element: Element) -> Iterator[Stretch]:
        """Sentences, and the blocks between them."""
        stretch: list[Part] = []
        _add_text(stretch, element.text)
        for child in element:
            kind = self.classify(child)
            if kind.role in (Role.BLOCK, Role.KEPT):
                yield stretch
                yield child
                stretch = []
            else:
                self._add(stretch, child, kind)
            _add_text(stretch, child.tail)
        yield stretch

    def _add(self, parts: list[Part], child: Element, kind: Kind) -> None:
        last = parts[-1] if parts else None
        if kind.role is Role.STALE:
            return
        if kind.role is Role.ATOM:
            self._add_atom(parts, child)
            return
        inner = self._read(child)
        if kind.role is Role.CLEAR or (inner and _is_blank(inner)):
            for part in inner:
                _add_part(parts, part)
        elif not has_text(inner):
            self._add_atom(parts, child)
        elif (
            isinstance(last, Span)
            and isinstance(last.shell, Element)
            and kind.key is not None
            and self.classify(last.shell) == kind
        ):
            joined = list(last.parts)
            for part in inner:
                _add_part(joined, part)
            parts[-1] = Span(last.shell, joined, last.is_container)
        else:
            parts.append(Span(child, inner, name_of(child) in self.links))

    def _add_atom(self, parts: list[Part], child: Element) -> None:
        _add_part(parts, Atom(((child, None),)))

    def _read(self, element: Element) -> list[Part]:
        parts: list[Part] = []
        _add_text(parts, element.text)
        for child in element:
            self._add(parts, child, self.classify(child))
            _add_text(parts, child.tail)
        return parts


def _is_blank(parts: Sequence[Part]) -> bool:
    """Whether it is white space only, on which most styles cannot be seen."""
    return all(isinstance(part, str) for part in parts) and not has_text(parts)


def _add_text(parts: list[Part], text: str | None) -> None:
    if text:
        _add_part(parts, _WHITE_SPACE.sub(" ", text))


def _add_part(parts: list[Part], part: Part) -> None:
    """Joins texts, and atoms, that follow each other."""
    last = parts[-1] if parts else None
    if isinstance(part, str) and isinstance(last, str):
        parts[-1] = _WHITE_SPACE.sub(" ", last + part)
    elif isinstance(part, Atom) and isinstance(last, Atom):
        parts[-1] = Atom(last.elements + part.elements)
    else:
        parts.append(part)


def _fill(element: Element, stretches: Sequence[Stretch]) -> None:
    """Makes stretches the whole content of an element."""
    element[:] = []
    element.text = None
    for stretch in stretches:
        if isinstance(stretch, list):
            _append(element, stretch)
        else:
            _append(element, [Atom(((stretch, None),))])


def _append(element: Element, parts: Sequence[Part]) -> None:
    for part in parts:
        if isinstance(part, str):
            _append_text(element, part)
        elif isinstance(part, Atom):
            for child, _ in part.elements:
                child.tail = None
                element.append(child)
        elif isinstance(part.shell, Element):
            shell = part.shell
            shell[:] = []
            shell.text = shell.tail = None
            _append(shell, part.parts)
            element.append(shell)


def _append_text(element: Element, text: str) -> None:
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
