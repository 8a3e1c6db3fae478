"""Paragraphs that consist of runs, each with its own formatting, as Office Open XML has them:
neighbours with the same formatting become one text, and a translation becomes runs again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

from lxml import etree

from documents.errors import DocumentTooLarge
from documents.formats.format import is_right_to_left
from documents.formats.fragments import (
    Atom,
    Element,
    Part,
    Slot,
    Span,
    beside,
    describe,
    find,
    join,
    list_spans,
    list_texts,
    make_slots,
    name_of,
)

#: The most bytes of formatting that a block's translation repeats: each piece of a run has
#: all of it.
_MAX_COPIED_BYTES = 4 << 20
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True, eq=False)
class Style:
    """A run's formatting. Runs of a paragraph with the same key look the same."""

    key: int
    run: Element
    #: The element of the run with its properties, if there is one.
    properties: Element | None

    @cached_property
    def size(self) -> int:
        """The bytes of a copy."""
        attributes = sum(len(str(value)) for value in self.run.attrib.values())
        said = b"" if self.properties is None else etree.tostring(self.properties)
        return attributes + len(said)


@dataclass(frozen=True, eq=False)
class Container:
    """An element around runs, such as a link. Its runs are in `inner`, which may be itself."""

    outer: Element
    inner: Element
    base: Style | None


@dataclass(frozen=True)
class Text:
    """Text of one run. Without a style it stands in no run."""

    text: str
    style: Style | None


class Runs:
    """Reads and writes paragraphs; a subclass knows the names of one vocabulary."""

    #: Short names.
    run, properties, text = "", "", ""
    #: The child of a paragraph that has its direction and stays first, and one that stays last.
    first: str | None = None
    last: str | None = None
    #: Elements that are about the text as it was. A translation has none.
    stale: frozenset[str] = frozenset()
    #: Properties that do not change how a run looks.
    invisible: frozenset[str] = frozenset()
    #: Whether a text must say that white space at its ends stays.
    is_spaced = False

    def __init__(self) -> None:
        self._keys: dict[tuple[object, ...], int] = {}
        self._copied_bytes = 0

    def find_slots(self, paragraph: Element) -> list[Slot]:
        """The text of a paragraph, if it has one, without those in its text boxes."""
        base, parts = self.join(self.read(paragraph))

        def build(parts: Sequence[Part], language: str) -> None:
            self._build(paragraph, base, parts, language)

        return make_slots(parts, build)

    def read(self, paragraph: Element) -> Iterator[Text | Atom | Span]:
        """Yield the parts of a paragraph in order."""
        for child in paragraph:
            name = name_of(child)
            if name == self.run:
                yield from self.read_run(child)
            elif name == self.text:
                yield Text(child.text or "", None)
            elif name not in (self.first, self.last, *self.stale):
                yield Atom(((child, None),))

    def read_run(self, run: Element) -> Iterator[Text | Atom]:
        """Yield the parts of a run in order."""
        style = self.make_style(run)
        for child in run:
            name = name_of(child)
            if name == self.text:
                yield Text(child.text or "", style)
            elif name != self.properties:
                yield Atom(((child, style),))

    def make_style(self, run: Element) -> Style:
        """The style of a run."""
        properties = find(run, self.properties)
        if properties is None:
            return Style(self._keys.setdefault((), len(self._keys)), run, None)
        attributes = sorted(
            (str(name), str(value))
            for name, value in properties.attrib.items()
            if name not in self.invisible
        )
        children = (
            describe(child)
            for child in properties
            if name_of(child) not in self.invisible
        )
        look = (*attributes, *children)
        key = self._keys.setdefault(look, len(self._keys))
        return Style(key, run, properties)

    def join(
        self, items: Iterable[Text | Atom | Span]
    ) -> tuple[Style | None, list[Part]]:
        """The style that most of the text has, and the parts, where other styles are spans."""
        parts = join(_style(items))
        base = _find_base(parts)
        key = base.key if base else None
        flat = (
            part.parts
            if isinstance(part, Span)
            and isinstance(part.shell, Style)
            and part.shell.key == key
            else [part]
            for part in parts
        )
        return base, [part for inner in flat for part in inner]

    def _build(
        self,
        paragraph: Element,
        base: Style | None,
        parts: Sequence[Part],
        language: str,
    ) -> None:
        """Puts new parts in the place of all that a paragraph consists of."""
        for span in list_spans(parts):
            if isinstance(span.shell, Container):
                span.shell.inner[:] = []
        first = [child for child in paragraph if name_of(child) == self.first]
        last = [child for child in paragraph if name_of(child) == self.last]
        is_rtl = is_right_to_left(language)
        if self.first and not first and is_rtl:
            first = [paragraph.makeelement(beside(paragraph, self.first[2:]))]
        paragraph[:] = first
        self._fill(paragraph, base, parts, language)
        paragraph.extend(last)
        for properties in first[:1]:
            self.turn(properties, is_rtl)

    def turn(self, properties: Element, is_rtl: bool) -> None:
        """Says in a paragraph's properties whether it is written from right to left."""

    def _fill(
        self,
        paragraph: Element,
        style: Style | None,
        parts: Sequence[Part],
        language: str,
    ) -> None:
        for part in parts:
            if isinstance(part, str):
                self.add_run(paragraph, part, style, language)
            elif isinstance(part, Atom):
                for element, own in part.elements:
                    is_in_run = isinstance(own, Style)
                    owner = self.open_run(paragraph, own) if is_in_run else paragraph
                    owner.append(element)
            elif isinstance(part.shell, Container):
                shell = part.shell
                paragraph.append(shell.outer)
                self._fill(shell.inner, shell.base, part.parts, language)
            elif isinstance(part.shell, Style):
                self._fill(paragraph, part.shell, part.parts, language)

    def open_run(self, paragraph: Element, style: object) -> Element:
        """A new run at the end of a paragraph, in a style or none."""
        if not isinstance(style, Style):
            return etree.SubElement(paragraph, beside(paragraph, self.run[2:]))
        self._copied_bytes += style.size
        if self._copied_bytes > _MAX_COPIED_BYTES:
            raise DocumentTooLarge(
                "The formatting of a paragraph has too many bytes for each of its parts"
            )
        run = etree.SubElement(paragraph, style.run.tag, style.run.attrib)
        if style.properties is not None:
            run.append(deepcopy(style.properties))
        return run

    def add_run(
        self, paragraph: Element, text: str, style: Style | None, language: str
    ) -> None:
        """A run with text at the end of a paragraph."""
        run = self.open_run(paragraph, style)
        self.mark(run, language)
        self.add_text(run, text)

    def add_text(self, owner: Element, text: str) -> None:
        """The element that holds the text of a run."""
        added = etree.SubElement(owner, beside(owner, self.text[2:]))
        added.text = text
        if self.is_spaced and text != text.strip():
            added.set(_SPACE, "preserve")

    def mark(self, run: Element, language: str) -> None:
        """Says in a run which language its text is in."""

    def open_properties(self, run: Element) -> Element:
        """A run's properties, which are made where there are none."""
        found = find(run, self.properties)
        if found is None:
            found = etree.Element(beside(run, self.properties[2:]))
            run.insert(0, found)
        return found


def _style(items: Iterable[Text | Atom | Span]) -> Iterator[Part]:
    """Texts in their styles. White space has that of what is before it, as most styles cannot
    be seen on it."""
    last: Part | None = None
    for item in items:
        if not isinstance(item, Text):
            last = item
        elif isinstance(last, Span) and not item.text.strip():
            last = last.fill([item.text])
        elif item.style and (item.text.strip() or not isinstance(last, str)):
            last = Span(item.style, [item.text], key=item.style.key)
        else:
            last = item.text
        yield last


def _find_base(parts: Sequence[Part]) -> Style | None:
    """The first style among those that have the most characters."""
    styles: dict[int, Style] = {}
    counts: Counter[int] = Counter()
    for part in parts:
        if isinstance(part, Span) and isinstance(part.shell, Style):
            styles.setdefault(part.shell.key, part.shell)
            counts[part.shell.key] += sum(map(len, list_texts(part.parts)))
    return styles[counts.most_common(1)[0][0]] if counts else None
