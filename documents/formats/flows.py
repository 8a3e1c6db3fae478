"""Content that mixes text and elements, as in XHTML and OpenDocument: the text between two
blocks, with its inline elements, is a sentence.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

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
)

#: Both formats collapse white space into one space.
_tidy = partial(re.compile(r"[ \t\r\n]+").sub, " ")


class ElementRole(Enum):
    """The role of an element in a text."""

    #: Its content is part of the sentence: bold text, a link.
    SPAN = auto()
    #: Its content is part of the sentence, but a translation loses the element.
    CLEAR = auto()
    #: It stays unchanged in the sentence.
    ATOM = auto()
    #: A translation loses it, as it describes the original text.
    STALE = auto()
    #: It separates sentences and contains others.
    BLOCK = auto()
    #: It separates sentences and contains none.
    KEPT = auto()


@dataclass(frozen=True)
class ElementKind:
    """The role of an element. Adjacent spans with the same key are joined."""

    role: ElementRole
    key: object = None


@dataclass(frozen=True)
class TextFlow:
    """The rules for finding the texts of elements."""

    #: Returns the kind of an element in the format's vocabulary.
    classify: Callable[[Element], ElementKind]

    def find_slots(self, element: Element) -> Iterator[Slot]:
        """Yield the texts of an element and of its blocks, in order."""
        inline: list[Element] = []
        before: Element | None = None
        for child in element:
            role = self.classify(child).role
            if role not in (ElementRole.BLOCK, ElementRole.KEPT):
                inline.append(child)
                continue
            yield from self._make_slots(element, before, inline, child)
            if role is ElementRole.BLOCK:
                yield from self.find_slots(child)
            inline, before = [], child
        yield from self._make_slots(element, before, inline, None)

    def _make_slots(
        self,
        element: Element,
        before: Element | None,
        inline: Sequence[Element],
        after: Element | None,
    ) -> list[Slot]:
        """Return the text between two blocks of an element, or between a block and its edge."""
        start = element.text if before is None else before.tail

        def build(parts: Sequence[Part], language: str) -> None:
            for span in list_spans(parts):
                if isinstance(span.shell, Element):
                    span.shell[:] = []
                    span.shell.text = span.shell.tail = None
            for child in inline:
                element.remove(child)
            if before is None:
                element.text = None
            else:
                before.tail = None
            _insert(element, parts, after)

        return make_slots(join(self._read(start, inline), _tidy), build)

    def _read(self, start: str | None, inline: Iterable[Element]) -> list[Part]:
        parts: list[Part] = [start or ""]
        for child in inline:
            parts += [*self._read_child(child), child.tail or ""]
        return parts

    def _read_child(self, child: Element) -> list[Part]:
        kind = self.classify(child)
        if kind.role is ElementRole.ATOM:
            return [Atom(((child, None),))]
        if kind.role not in (ElementRole.SPAN, ElementRole.CLEAR):
            return []
        inner = join(self._read(child.text, child), _tidy)
        if kind.role is ElementRole.CLEAR:
            return inner
        if has_text(inner):
            return [Span(child, inner, kind.key)]
        # Most styles are invisible on white space.
        is_blank = bool(inner) and all(isinstance(part, str) for part in inner)
        return inner if is_blank else [Atom(((child, None),))]


def _insert(
    element: Element, parts: Sequence[Part], following: Element | None = None
) -> None:
    """Insert parts at the end of an element, or before one of its blocks."""
    if following is None:
        last = next(element.iterchildren(reversed=True), None)
        add = element.append
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
            last = deepcopy(part.shell)  # the arms of a message may repeat it
            add(last)
            _insert(last, part.parts)
