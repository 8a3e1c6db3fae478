"""Content in which text and elements are mixed, as in XHTML and OpenDocument: the text between
two blocks is a sentence, with the inline elements in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import zip_longest
from typing import TypeAlias

from documents.formats.fragments import (
    Atom,
    Element,
    Part,
    Slot,
    Span,
    has_text,
    join,
    list_spans,
    make_slots,
    name_of,
)

#: Both formats take any of it for one space.
_tidy = partial(re.compile(r"[ \t\r\n]+").sub, " ")


class ElementRole(Enum):
    """The role of an element in a text."""

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
class ElementKind:
    """The role of an element. Spans with the same key that follow each other are joined."""

    role: ElementRole
    key: object = None


Stretch: TypeAlias = "list[Part] | Element"


class TextFlow:
    """Finds the texts of elements. `classify` knows the vocabulary; spans that are `links`
    must not be in each other. What is written is in its element after `finish`.
    """

    def __init__(
        self, classify: Callable[[Element], ElementKind], links: frozenset[str]
    ) -> None:
        self._classify = classify
        self._links = links
        self._changed: dict[Element, list[Stretch]] = {}

    def find_slots(self, element: Element) -> Iterator[Slot]:
        """The texts of an element and of the blocks in it, in order."""
        stretches = list(self._divide(element))
        for number, stretch in enumerate(stretches):
            if isinstance(stretch, list):
                yield from self._make_slots(element, stretches, number, stretch)
            elif self._classify(stretch).role is ElementRole.BLOCK:
                yield from self.find_slots(stretch)

    def finish(self) -> None:
        """Fills all elements with new texts, each once: a chapter may have many texts."""
        for element, stretches in self._changed.items():
            blocks = {stretch for stretch in stretches if isinstance(stretch, Element)}
            written = [s for s in stretches if isinstance(s, list)]
            for span in [span for parts in written for span in list_spans(parts)]:
                if isinstance(span.shell, Element):
                    span.shell[:] = []
                    span.shell.text = span.shell.tail = None
            for child in [child for child in element if child not in blocks]:
                element.remove(child)
            element.text = None
            for stretch, after in zip_longest(stretches, stretches[1:]):
                if isinstance(stretch, Element):
                    stretch.tail = None
                else:
                    following = after if isinstance(after, Element) else None
                    _insert(element, stretch, following)
        self._changed.clear()

    def _make_slots(
        self, element: Element, stretches: list[Stretch], number: int, old: list[Part]
    ) -> list[Slot]:
        def build(parts: Sequence[Part], language: str) -> None:
            stretches[number] = list(parts)
            self._changed[element] = stretches

        return make_slots(old, build)

    def _divide(self, element: Element) -> Iterator[Stretch]:
        """Sentences, and the blocks between them. In a span there are none."""
        parts: list[Part] = [element.text or ""]
        for child in element:
            kind = self._classify(child)
            if kind.role in (ElementRole.BLOCK, ElementRole.KEPT):
                yield join(parts, _tidy)
                yield child
                parts.clear()
            else:
                parts += self._read_child(child, kind)
            parts.append(child.tail or "")
        yield join(parts, _tidy)

    def _read_child(self, child: Element, kind: ElementKind) -> list[Part]:
        if kind.role is ElementRole.ATOM:
            return [Atom(((child, None),))]
        if kind.role not in (ElementRole.SPAN, ElementRole.CLEAR):
            return []
        divided = self._divide(child)
        inner = [p for parts in divided if isinstance(parts, list) for p in parts]
        if kind.role is ElementRole.CLEAR:
            return inner
        if has_text(inner):
            is_link = name_of(child) in self._links
            return [Span(child, inner, is_link, kind.key)]
        # Most styles cannot be seen on white space.
        is_blank = bool(inner) and all(isinstance(part, str) for part in inner)
        return inner if is_blank else [Atom(((child, None),))]


def _insert(
    element: Element, parts: Sequence[Part], following: Element | None = None
) -> None:
    """Adds parts at the end of an element, or before one of its blocks."""
    if following is None:
        last, add = next(element.iterchildren(reversed=True), None), element.append
    else:
        last, add = following.getprevious(), following.addprevious
    for part in parts:
        if isinstance(part, str):
            if last is None:
                element.text = (element.text or "") + part
            else:
                last.tail = (last.tail or "") + part
        elif isinstance(part, Atom):
            for last, _ in part.elements:
                last.tail = None
                add(last)
        elif isinstance(part.shell, Element):
            last = part.shell
            add(last)
            _insert(last, part.parts)
