"""Text documents (.docx): body, tables, text boxes, headers, footers, notes and comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

from documents.formats.blocks import ElementNames
from documents.formats.format import LanguagePair
from documents.formats.fragments import (
    Atom,
    Element,
    Part,
    Slot,
    Span,
    attribute,
    beside,
    name_of,
)
from documents.formats.openxml import make_plan
from documents.formats.packages import make_package_format
from documents.formats.runs import (
    Container,
    Copies,
    Runs,
    Style,
    Text,
    find,
    is_right_to_left,
    keep_spaces,
)

#: Fields whose result is text that a writer wrote; others are worked out, as page numbers.
_WRITTEN_FIELDS = ("HYPERLINK", "TOC", "INDEX")
#: So much of an instruction tells which.
_LONGEST_WORD = 20
_CONTAINERS = frozenset(
    "w:hyperlink w:ins w:moveTo w:smartTag w:customXml w:dir w:bdo".split()
)
#: Marks of spelling and layout programs, which are about the text as it was.
_STALE = frozenset({"w:proofErr", "w:lastRenderedPageBreak"})
_LETTERS = {"w:noBreakHyphen": "\u2011", "w:softHyphen": "\u00ad"}
#: The elements that the schema wants behind these properties.
_AFTER_LANG = frozenset("w:eastAsianLayout w:specVanish w:oMath w:rPrChange".split())
_AFTER_RTL = _AFTER_LANG | {"w:cs", "w:em", "w:lang"}
_AFTER_BIDI = frozenset(
    """w:adjustRightInd w:snapToGrid w:spacing w:ind w:contextualSpacing w:mirrorIndents
    w:suppressOverlap w:jc w:textDirection w:textAlignment w:textboxTightWrap w:outlineLvl
    w:divId w:cnfStyle w:rPr w:sectPr w:pPrChange""".split()
)


@dataclass
class _Field:
    """A field that is open: an instruction, which may be cut, then perhaps its result."""

    instruction: str = ""
    is_shown: bool = False


class _WordRuns(Runs):
    """Paragraphs of one block. Fields may begin in one run and end in another."""

    run, properties, text = "w:r", "w:rPr", "w:t"
    first = frozenset({"w:pPr"})
    invisible = frozenset({"w:lang", "w:noProof"})

    def __init__(self, copies: Copies) -> None:
        super().__init__(copies)
        self._fields: list[_Field] = []
        #: The number of them that do not show their content.
        self._hidden = 0

    def read(self, paragraph: Element) -> Iterator[Text | Atom | Span]:
        """See Runs."""
        for child in paragraph:
            name = name_of(child)
            inner = self._open_container(child, name)
            if name == self.run:
                yield from self.read_run(child)
            elif inner is not None and not self._is_hidden():
                base, parts = self.join(self.read(inner))
                yield Span(Container(child, inner, base), parts, is_container=True)
            elif name not in self.first and name not in _STALE:
                if inner is not None:
                    self._follow_all(inner)
                yield Atom(((child, None),))

    def read_run(self, run: Element) -> Iterator[Text | Atom]:
        """See Runs."""
        style = self.make_style(run)
        for child in run:
            name = name_of(child)
            if name == self.properties or name in _STALE:
                continue
            if name == "w:ruby" and not self._is_hidden():
                yield from self._read_ruby(child)
                continue
            is_field = self._is_hidden() | self._follow(child)
            if is_field or name not in (self.text, *_LETTERS):
                yield Atom(((child, style),))
            else:
                yield Text(_LETTERS.get(name) or child.text or "", style)

    def _read_ruby(self, ruby: Element) -> Iterator[Text | Atom]:
        """The text without its reading, which a translation does not have."""
        base = find(ruby, "w:rubyBase")
        for run in base if base is not None else ():
            yield from self.read_run(run)

    def _open_container(self, child: Element, name: str) -> Element | None:
        """Open the container of runs."""
        if name == "w:sdt":
            return find(child, "w:sdtContent")
        if name == "w:fldSimple":
            instruction = attribute(child, "w:instr").split()[:1]
            return child if set(instruction) & set(_WRITTEN_FIELDS) else None
        return child if name in _CONTAINERS else None

    def _is_hidden(self) -> bool:
        return self._hidden > 0

    def _follow(self, element: Element) -> bool:
        """Keeps account of fields; whether an element belongs to one."""
        name = name_of(element)
        field = self._fields[-1] if self._fields else None
        if name == "w:instrText" and field:
            # The first word says what it is.
            instruction = field.instruction + (element.text or "")
            field.instruction = instruction.lstrip()[:_LONGEST_WORD]
        if name != "w:fldChar":
            return name == "w:instrText"
        kind = attribute(element, "w:fldCharType")
        if kind == "begin":
            self._fields.append(_Field())
            self._hidden += 1
        elif kind == "separate" and field:
            words = field.instruction.split()
            self._hidden += field.is_shown
            field.is_shown = bool(words) and words[0] in _WRITTEN_FIELDS
            self._hidden -= field.is_shown
        elif kind == "end" and field:
            self._hidden -= not field.is_shown
            self._fields.pop()
        return True

    def _follow_all(self, hidden: Element) -> None:
        for element in hidden.iter():
            self._follow(element)

    def add_text(self, owner: Element, text: str) -> None:
        """See Runs."""
        super().add_text(owner, text)
        keep_spaces(owner[-1])

    def mark(self, run: Element, languages: LanguagePair) -> None:
        """See Runs."""
        properties = self.open_properties(run)
        is_rtl = is_right_to_left(languages.target)
        _switch(properties, "rtl", is_rtl, _AFTER_RTL)
        lang = find(properties, "w:lang")
        if lang is None:
            lang = _insert(properties, "lang", _AFTER_LANG)
        kind = "bidi" if is_rtl else "val"
        if languages.target in ("zh", "ja", "ko"):
            kind = "eastAsia"
        lang.set(beside(run, kind), languages.target)

    def build(
        self,
        paragraph: Element,
        base: Style | None,
        parts: Sequence[Part],
        languages: LanguagePair,
    ) -> None:
        """See Runs; the paragraph gets the direction of the language."""
        super().build(paragraph, base, parts, languages)
        is_rtl = is_right_to_left(languages.target)
        properties = find(paragraph, "w:pPr")
        if properties is None and is_rtl:
            properties = paragraph.makeelement(beside(paragraph, "pPr"))
            paragraph.insert(0, properties)
        if properties is not None:
            _switch(properties, "bidi", is_rtl, _AFTER_BIDI)


def _switch(
    properties: Element, local: str, is_on: bool, successors: frozenset[str]
) -> None:
    """Sets or removes a property that has no value."""
    found = find(properties, f"w:{local}")
    if found is not None:
        properties.remove(found)
    if is_on:
        _insert(properties, local, successors)


def _insert(properties: Element, local: str, successors: frozenset[str]) -> Element:
    """A new property, in the order of the schema."""
    new = properties.makeelement(beside(properties, local))
    names = [name_of(child) for child in properties]
    at = next((n for n, name in enumerate(names) if name in successors), len(names))
    properties.insert(at, new)
    return new


def _find_slots(wrapper: Element) -> list[Slot]:
    """The texts of all paragraphs; those of text boxes are inside of others."""
    paragraphs = (p for p in wrapper.iter(etree.Element) if name_of(p) == "w:p")
    copies = Copies()
    found = (_WordRuns(copies).find_slot(paragraph) for paragraph in paragraphs)
    return [slot for slot in found if slot]


_PARAGRAPHS = ElementNames(frozenset({"w:p"}), _find_slots)
_PARTS = "document.main header footer footnotes endnotes comments".split()
_PLAN = make_plan(
    "wordprocessingml", "document.main", dict.fromkeys(_PARTS, _PARAGRAPHS)
)

FORMAT = make_package_format(
    ".docx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    _PLAN,
)
