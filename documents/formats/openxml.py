"""Office Open XML: text documents (.docx), presentations (.pptx) and spreadsheets (.xlsx), also
with macros, which stay as they are, and the texts in their drawings, charts and diagrams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from contract.languages import normalize_language
from documents.errors import DamagedDocument
from documents.formats.blocks import TITLE, ElementNames
from documents.formats.format import Format, is_right_to_left
from documents.formats.fragments import (
    Atom,
    Element,
    Slot,
    Span,
    attribute,
    beside,
    find,
    find_plain_slots,
    name_of,
)
from documents.formats.packages import Package, make_package_format
from documents.formats.runs import Container, Runs, Style, Text

_TYPES = "[Content_Types].xml"
_DOCUMENT = "application/vnd.openxmlformats-officedocument"
#: Fields whose result is text that a writer wrote; others are worked out, as page numbers.
_WRITTEN_FIELDS = ("HYPERLINK", "TOC", "INDEX")
#: So much of an instruction tells which.
_LONGEST_WORD = 20
_CONTAINERS = frozenset(
    "w:hyperlink w:ins w:moveTo w:smartTag w:customXml w:dir w:bdo".split()
)
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

    run, properties, text, first = "w:r", "w:rPr", "w:t", "w:pPr"
    #: Marks of spelling and layout programs.
    stale = frozenset({"w:proofErr", "w:lastRenderedPageBreak"})
    invisible = frozenset({"w:lang", "w:noProof"})
    is_spaced = True

    def find_slots(self, paragraph: Element) -> list[Slot]:
        self._fields: list[_Field] = []
        #: The number of them that do not show their content.
        self._hidden = 0
        return super().find_slots(paragraph)

    def read(self, paragraph: Element) -> Iterator[Text | Atom | Span]:
        for child in paragraph:
            name = name_of(child)
            inner = self._open_container(child, name)
            if name == self.run:
                yield from self.read_run(child)
            elif inner is not None and not self._hidden:
                base, parts = self.join(self.read(inner))
                shell = Container(child, inner, base)
                yield Span(shell, parts, is_container=True, key=shell)
            elif name != self.first and name not in self.stale:
                for element in inner.iter() if inner is not None else ():
                    self._follow(element)
                yield Atom(((child, None),))

    def read_run(self, run: Element) -> Iterator[Text | Atom]:
        style = self.make_style(run)
        for child in run:
            name = name_of(child)
            if name == self.properties or name in self.stale:
                continue
            if name == "w:ruby" and not self._hidden:
                # A translation does not have the reading of its letters.
                base = find(child, "w:rubyBase")
                for inner in base if base is not None else ():
                    yield from self.read_run(inner)
                continue
            is_field = (self._hidden > 0) | self._follow(child)
            if is_field or name not in (self.text, *_LETTERS):
                yield Atom(((child, style),))
            else:
                yield Text(_LETTERS.get(name) or child.text or "", style)

    def _open_container(self, child: Element, name: str) -> Element | None:
        if name == "w:sdt":
            return find(child, "w:sdtContent")
        if name == "w:fldSimple":
            instruction = attribute(child, "w:instr").split()[:1]
            return child if set(instruction) & set(_WRITTEN_FIELDS) else None
        return child if name in _CONTAINERS else None

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

    def mark(self, run: Element, language: str) -> None:
        properties = self.open_properties(run)
        is_rtl = is_right_to_left(language)
        _switch(properties, "rtl", is_rtl, _AFTER_RTL)
        lang = find(properties, "w:lang")
        if lang is None:
            lang = _insert(properties, "lang", _AFTER_LANG)
        kind = "bidi" if is_rtl else "val"
        if normalize_language(language) in ("zh", "ja", "ko"):
            kind = "eastAsia"
        lang.set(beside(run, kind), language)

    def turn(self, properties: Element, is_rtl: bool) -> None:
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


class _DrawingRuns(Runs):
    """Paragraphs of shapes. A link is a property of a run."""

    run, properties, text = "a:r", "a:rPr", "a:t"
    first, last = "a:pPr", "a:endParaRPr"
    invisible = frozenset(
        "lang altLang dirty err noProof smtClean smtId bmk kumimoji".split()
    )

    def mark(self, run: Element, language: str) -> None:
        self.open_properties(run).set("lang", language)

    def turn(self, properties: Element, is_rtl: bool) -> None:
        if is_rtl:
            properties.set("rtl", "1")
        else:
            properties.attrib.pop("rtl", None)


class _CellRuns(Runs):
    """Texts of cells: a plain text, or runs."""

    run, properties, text = "x:r", "x:rPr", "x:t"
    #: The reading of Japanese letters, by their positions in the text.
    stale = frozenset({"x:rPh", "x:phoneticPr"})
    is_spaced = True

    def add_run(
        self, paragraph: Element, text: str, style: Style | None, language: str
    ) -> None:
        if style is None:
            self.add_text(paragraph, text)
        else:
            super().add_run(paragraph, text, style, language)


def _find_in_paragraphs(wrapper: Element) -> list[Slot]:
    """The texts of all paragraphs of text; those of text boxes are inside of others."""
    paragraphs = (p for p in wrapper.iter(etree.Element) if name_of(p) == "w:p")
    runs = _WordRuns()
    return [slot for paragraph in paragraphs for slot in runs.find_slots(paragraph)]


def _find_in_shapes(wrapper: Element) -> list[Slot]:
    """The texts of paragraphs, of a chart's labels and names, and of plain comments."""
    runs, found = _DrawingRuns(), list[Slot]()
    for element in wrapper.iter():
        if (name := name_of(element)) == "a:p":
            found += runs.find_slots(element)
        elif name in ("c:v", "p:text"):
            found += find_plain_slots(element)
    return found


def _find_in_layout(wrapper: Element) -> list[Slot]:
    """A placeholder's text is a prompt that no slide shows."""
    is_prompt = any(name_of(element) == "p:ph" for element in wrapper.iter())
    return [] if is_prompt else _find_in_shapes(wrapper)


_PARAGRAPHS = ElementNames(frozenset({"w:p"}), _find_in_paragraphs)
#: Parts with shapes. Numbers in a chart's cache are elsewhere.
_SHAPES = ElementNames(frozenset({"a:p", "c:strCache", "p:text"}), _find_in_shapes)
_LAYOUT = ElementNames(frozenset({"p:sp"}), _find_in_layout)


def _name_cells(package: Package, types: Mapping[str, str]) -> ElementNames:
    """The texts of cells. Headings of tables stay, as formulas name them: a cell with another
    text than its column's name makes the file a damaged one for Excel."""
    table = f"{_DOCUMENT}.spreadsheetml.table+xml"
    tables = (name for name, kind in types.items() if kind == table)
    headings = {
        (column.get("name") or "").replace("_x000a_", "\n")
        for table in tables
        for column in package.list_elements(table, "x:tableColumn")
    }

    def find_slots(wrapper: Element) -> list[Slot]:
        cell = wrapper[0]
        if "".join(cell.itertext()) in headings:
            return []
        return _CellRuns().find_slots(cell) if len(cell) else find_plain_slots(cell)

    return ElementNames(frozenset({"x:si", "x:is", "x:text"}), find_slots)


def _list_types(package: Package) -> dict[str, str]:
    """The type of each part that the document names. Raises DamagedDocument if there is no
    list."""
    by_ending: dict[str, str] = {}
    types: dict[str, str] = {}
    for element in package.list_elements(_TYPES, "types:Types"):
        for child in element:
            kind = child.get("ContentType") or ""
            if name_of(child) == "types:Default":
                by_ending[(child.get("Extension") or "").lower()] = kind
            elif name_of(child) == "types:Override":
                types[(child.get("PartName") or "").removeprefix("/")] = kind
    for member in package.members:
        ending = member.filename.rpartition(".")[2].lower()
        types.setdefault(member.filename, by_ending.get(ending, ""))
    return types


_SHARED = {
    **dict.fromkeys(
        (
            *(f"{_DOCUMENT}.drawing+xml", f"{_DOCUMENT}.drawingml.chart+xml"),
            f"{_DOCUMENT}.drawingml.chartshapes+xml",
            f"{_DOCUMENT}.drawingml.diagramData+xml",
            "application/vnd.ms-office.drawingml.diagramDrawing+xml",
        ),
        _SHAPES,
    ),
    "application/vnd.openxmlformats-package.core-properties+xml": TITLE,
}
_WORD_PARTS = dict.fromkeys(
    "document.main header footer footnotes endnotes comments".split(), _PARAGRAPHS
)
_SLIDES = {
    **dict.fromkeys(("slide", "notesSlide", "comments"), _SHAPES),
    **dict.fromkeys(("slideLayout", "slideMaster"), _LAYOUT),
}
_SHEETS = ("sharedStrings", "worksheet", "comments")


def _make_formats(
    ending: str,
    name: str,
    program: str,
    parts: Mapping[str, ElementNames],
    *,
    cells: tuple[str, ...] = (),
) -> Iterator[Format]:
    """The formats of one kind of document, without and with macros. `parts` are those with
    texts, and `cells` those with cells, by the last words of their types; the document must
    have a main part."""
    family, _, kind_name = name.partition(".")
    prefix, main = f"{_DOCUMENT}.{family}.", f"{kind_name}.main"
    with_macros = f"application/vnd.ms-{program}.{kind_name}.macroEnabled"

    def plan(package: Package) -> Mapping[str, ElementNames]:
        types = {
            name: kind.replace(f"{with_macros}.main", f"{prefix}{main}")
            for name, kind in _list_types(package).items()
        }
        if f"{prefix}{main}+xml" not in types.values():
            raise DamagedDocument(
                f"Not what its name says: no part is a {family} {main}"
            )
        found = dict.fromkeys(cells, _name_cells(package, types)) if cells else parts
        known = {f"{prefix}{name}+xml": part for name, part in found.items()} | _SHARED
        return {name: known[kind] for name, kind in types.items() if kind in known}

    yield make_package_format(f"{ending}x", f"{_DOCUMENT}.{name}", plan)
    yield make_package_format(f"{ending}m", f"{with_macros}.12", plan)


FORMATS = (
    *_make_formats(".doc", "wordprocessingml.document", "word", _WORD_PARTS),
    *_make_formats(".ppt", "presentationml.presentation", "powerpoint", _SLIDES),
    *_make_formats(".xls", "spreadsheetml.sheet", "excel", {}, cells=_SHEETS),
)
