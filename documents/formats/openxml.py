"""Office Open XML: text documents (.docx), presentations (.pptx) and spreadsheets (.xlsx), also
with macros, which stay unchanged, and the texts in their drawings, charts and diagrams.
Paragraphs consist of runs, each with its own formatting: adjacent runs with the same formatting
become one text, and a translation is split into runs again.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from lxml import etree

from contract.languages import SCRIPTS
from documents.errors import DamagedDocument
from documents.formats.blocks import TITLE, ElementNames
from documents.formats.format import Format, is_right_to_left
from documents.formats.fragments import (
    Atom,
    Element,
    Part,
    Slot,
    Span,
    attribute,
    beside,
    describe,
    find,
    find_plain_slots,
    has_text,
    join,
    list_spans,
    list_texts,
    make_slots,
    name_of,
)
from documents.formats.packages import Package, make_package_format

_TYPES = "[Content_Types].xml"
_DOCUMENT = "application/vnd.openxmlformats-officedocument"
#: Fields whose result is written text; other results are computed, such as page numbers.
_WRITTEN_FIELDS = ("HYPERLINK", "TOC", "INDEX", "INCLUDETEXT")
#: The characters of an instruction that identify its field.
_LONGEST_WORD = 20
#: The spaces that may have an underline by mistake.
_LONGEST_SPACE = 2
_CONTAINERS = frozenset("w:hyperlink w:ins w:moveTo w:customXml w:dir w:bdo".split())
_LETTERS = {"w:noBreakHyphen": "\u2011", "w:softHyphen": "\u00ad"}
#: Scripts whose language Word stores in a separate attribute.
_EAST_ASIAN = frozenset(("Han", "Hangul"))
#: The order of the schema: the last properties of a paragraph, then those of a run.
_ORDER = """w:bidi w:adjustRightInd w:snapToGrid w:spacing w:ind w:contextualSpacing
    w:mirrorIndents w:suppressOverlap w:jc w:textDirection w:textAlignment w:textboxTightWrap
    w:outlineLvl w:divId w:cnfStyle w:rPr w:sectPr w:pPrChange w:rtl w:cs w:em w:lang
    w:eastAsianLayout w:specVanish w:oMath w:rPrChange""".split()
_AFTER = {name: frozenset(_ORDER[n + 1 :]) for n, name in enumerate(_ORDER)}
#: The types of cells that contain a text themselves.
_TEXTS = ("inlineStr", "str")
#: The elements with the headings of tables and pivot tables, by the type of their part.
_COLUMNS = {
    f"{_DOCUMENT}.spreadsheetml.table+xml": "x:tableColumn",
    f"{_DOCUMENT}.spreadsheetml.pivotCacheDefinition+xml": "x:cacheField",
}
#: The carriage return before a line break in a cell, which programs do not show.
_RETURN = re.compile("(?<!_x005F)_x000D_", re.IGNORECASE)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True)
class Style:
    """A run's formatting. Styles of a paragraph that look the same are equal."""

    number: int
    run: Element = field(compare=False)
    #: The run's element for properties, if it has one.
    properties: Element | None = field(compare=False)


@dataclass(frozen=True, eq=False)
class Container:
    """An element around runs, such as a link. Its runs are in `inner`, which may be `outer`."""

    outer: Element
    inner: Element
    base: Style | None


class Runs:
    """A reader and writer of paragraphs; each subclass has the names of one vocabulary."""

    #: Short names.
    run, properties, text = "", "", ""
    #: The child of a paragraph that sets its direction and stays first; one that stays last.
    first: str | None = None
    last: str | None = None
    #: The properties of a container, which stay first in it.
    heads: frozenset[str] = frozenset()
    #: Elements that describe the original text. A translation has none.
    stale: frozenset[str] = frozenset()
    #: Properties that do not change how a run looks.
    invisible: frozenset[str] = frozenset()
    #: Whether a text needs an attribute to preserve white space at its ends.
    is_spaced = False

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def find_slots(self, paragraph: Element) -> list[Slot]:
        """Return the text of a paragraph, if it has one, without those in its text boxes."""
        base, parts = self.join(self.read(paragraph))

        def build(parts: Sequence[Part], language: str) -> None:
            for span in list_spans(parts):
                if isinstance(span.shell, Container):
                    inner = span.shell.inner
                    inner[:] = [each for each in inner if name_of(each) in self.heads]
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

        return make_slots(parts, build)

    def read(self, paragraph: Element) -> Iterator[Part]:
        """Yield the parts of a paragraph in order: the text of a run as a span in its style,
        and text outside of runs as a string."""
        for child in paragraph:
            name = name_of(child)
            if name == self.run:
                yield from self.read_run(child)
            elif name == self.text:
                yield child.text or ""
            elif name not in (self.first, self.last, *self.stale):
                yield Atom(((child, None),))

    def read_run(self, run: Element) -> Iterator[Part]:
        style = self.make_style(run)
        for child in run:
            name = name_of(child)
            if name == self.text:
                yield _style(child.text, style)
            elif name != self.properties:
                yield Atom(((child, style),))

    def make_style(self, run: Element) -> Style:
        properties = find(run, self.properties)
        look = () if properties is None else describe(properties, self.invisible)[1:]
        number = self._numbers.setdefault(look, len(self._numbers))
        return Style(number, run, properties)

    def join(self, read: Iterable[Part]) -> tuple[Style | None, list[Part]]:
        """Return the style of most of the text, and the parts, where other styles are spans."""
        parts = join(_hide_space(read))
        base = _find_base(parts)
        flat = (
            part.parts if isinstance(part, Span) and part.shell == base else [part]
            for part in parts
        )
        return base, [part for inner in flat for part in inner]

    def turn(self, properties: Element, is_rtl: bool) -> None:
        """Set in a paragraph's properties whether it is written from right to left."""

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
                outer = deepcopy(part.shell.outer)  # a message's arms may repeat it
                content = find(outer, "w:sdtContent")
                paragraph.append(outer)
                inner = outer if content is None else content
                self._fill(inner, part.shell.base, part.parts, language)
            elif isinstance(part.shell, Style):
                self._fill(paragraph, part.shell, part.parts, language)

    def open_run(self, paragraph: Element, style: object) -> Element:
        """Append a new run to a paragraph, in a style or none."""
        if not isinstance(style, Style):
            return etree.SubElement(paragraph, beside(paragraph, self.run[2:]))
        run = etree.SubElement(paragraph, style.run.tag, style.run.attrib)
        if style.properties is not None:
            run.append(deepcopy(style.properties))
        return run

    def add_run(
        self, paragraph: Element, text: str, style: Style | None, language: str
    ) -> None:
        run = self.open_run(paragraph, style)
        self.mark(run, language)
        added = etree.SubElement(run, beside(run, self.text[2:]))
        added.text = text
        if self.is_spaced and text != text.strip():
            added.set(_SPACE, "preserve")

    def mark(self, run: Element, language: str) -> None:
        """Set the language of a run's text."""

    def open_properties(self, run: Element) -> Element:
        """Return a run's properties, creating them if needed."""
        found = find(run, self.properties)
        if found is None:
            found = etree.Element(beside(run, self.properties[2:]))
            run.insert(0, found)
        return found


def _style(text: str | None, style: Style) -> Span:
    return Span(style, [text or ""], key=style)


def _hide_space(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts, with white space in the style of the preceding part, as most styles are
    invisible on it."""
    last: str | Span | None = None
    for part in parts:
        shell = part.shell if isinstance(part, Span) else None
        if isinstance(part, Atom) or isinstance(shell, Container):
            last = None
        elif last is None or has_text([part]):
            last = part
        else:
            space = "".join(list_texts([part]))
            last = replace(last, parts=[space]) if isinstance(last, Span) else space
            part = last
        yield part


def _find_base(parts: Sequence[Part]) -> Style | None:
    """Return the style with the most characters, the first if there are several."""
    counts = Counter[Style]()
    for part in parts:
        if isinstance(part, Span) and isinstance(part.shell, Style):
            counts[part.shell] += sum(map(len, list_texts(part.parts)))
    return counts.most_common(1)[0][0] if counts else None


@dataclass
class _Field:
    """An open field: an instruction, which may be truncated, then perhaps its result."""

    instruction: str = ""
    is_shown: bool = False


@dataclass
class _Fields:
    """The open fields of a part: they may begin in one paragraph and end in another."""

    opened: list[_Field] = field(default_factory=list)
    #: The number of open fields that do not show their content.
    hidden: int = 0

    def follow(self, element: Element) -> bool:
        """Track the open fields. Return whether an element belongs to one."""
        name = name_of(element)
        last = self.opened[-1] if self.opened else None
        if name == "w:instrText" and last:
            # The first word is the kind of field.
            instruction = last.instruction + (element.text or "")
            last.instruction = instruction.lstrip()[:_LONGEST_WORD].upper()
        if name != "w:fldChar":
            return name == "w:instrText"
        kind = attribute(element, "w:fldCharType")
        if kind == "begin":
            self.opened.append(_Field())
            self.hidden += 1
        elif kind == "separate" and last:
            words = last.instruction.split()
            self.hidden += last.is_shown
            last.is_shown = bool(words) and words[0] in _WRITTEN_FIELDS
            self.hidden -= last.is_shown
        elif kind == "end" and last:
            self.hidden -= not last.is_shown
            self.opened.pop()
        return True


class _WordRuns(Runs):
    """Paragraphs of one block."""

    run, properties, text, first = "w:r", "w:rPr", "w:t", "w:pPr"
    heads = frozenset({"w:customXmlPr"})
    #: Marks of spelling and layout programs, and what Word 2003 knew about a name.
    stale = frozenset({"w:proofErr", "w:lastRenderedPageBreak", "w:smartTagPr"})
    #: A translated run has the direction of its own language.
    invisible = frozenset({"w:hint", "w:lang", "w:noProof", "w:rtl"})
    is_spaced = True

    def __init__(self, fields: _Fields) -> None:
        super().__init__()
        self._fields = fields

    def read(self, paragraph: Element) -> Iterator[Part]:
        for child in paragraph:
            name = name_of(child)
            inner = self._open_container(child, name)
            if name == self.run:
                yield from self.read_run(child)
            elif name == "w:smartTag":  # no program shows it any more
                yield from self.read(child)
            elif inner is not None and not self._fields.hidden:
                base, parts = self.join(self.read(inner))
                shell = Container(child, inner, base)
                yield Span(shell, parts, key=shell)
            elif name not in (self.first, *self.heads, *self.stale):
                for element in inner.iter() if inner is not None else ():
                    self._fields.follow(element)
                yield Atom(((child, None),))

    def read_run(self, run: Element) -> Iterator[Part]:
        style = self.make_style(run)
        for child in run:
            name = name_of(child)
            if name == self.properties or name in self.stale:
                continue
            if name == "w:ruby" and not self._fields.hidden:
                # A translation loses the reading of the characters.
                base = find(child, "w:rubyBase")
                for inner in base if base is not None else ():
                    yield from self.read_run(inner)
                continue
            is_field = (self._fields.hidden > 0) | self._fields.follow(child)
            is_text = name in (self.text, *_LETTERS) and not _is_line(child, style)
            if is_field or not is_text:
                yield Atom(((child, style),))
            else:
                yield _style(_LETTERS.get(name) or child.text, style)

    def _open_container(self, child: Element, name: str) -> Element | None:
        if name == "w:sdt":
            return find(child, "w:sdtContent")
        if name == "w:fldSimple":
            instruction = attribute(child, "w:instr").upper().split()[:1]
            return child if set(instruction) & set(_WRITTEN_FIELDS) else None
        return child if name in _CONTAINERS else None

    def mark(self, run: Element, language: str) -> None:
        properties = self.open_properties(run)
        is_rtl = is_right_to_left(language)
        _switch(properties, "rtl", is_rtl)
        lang = find(properties, "w:lang")
        if lang is None:
            lang = _insert(properties, "lang")
        kind = "bidi" if is_rtl else "val"
        if not _EAST_ASIAN.isdisjoint(SCRIPTS.get(language, ())):
            kind = "eastAsia"
        lang.set(beside(run, kind), language)

    def turn(self, properties: Element, is_rtl: bool) -> None:
        _switch(properties, "bidi", is_rtl)


def _is_line(text: Element, style: Style) -> bool:
    """Whether a text consists of underlined spaces, as a line to write on in a form does."""
    said = text.text or ""
    properties = style.properties
    is_long = len(said) > _LONGEST_SPACE and said.isspace()
    return is_long and properties is not None and find(properties, "w:u") is not None


def _switch(properties: Element, local: str, is_on: bool) -> None:
    """Set a property, or switch it off if it is there: a style may have it too."""
    found = find(properties, f"w:{local}")
    if found is None and is_on:
        _insert(properties, local)
    elif found is not None:
        found.attrib.clear()
        found.attrib.update({} if is_on else {beside(found, "val"): "0"})


def _insert(properties: Element, local: str) -> Element:
    """Insert a new property in the order of the schema."""
    new = properties.makeelement(beside(properties, local))
    after = _AFTER[f"w:{local}"]
    names = [name_of(child) for child in properties]
    at = next((n for n, name in enumerate(names) if name in after), len(names))
    properties.insert(at, new)
    return new


class _DrawingRuns(Runs):
    """Paragraphs of shapes, where a link is a property of a run."""

    run, properties, text = "a:r", "a:rPr", "a:t"
    first, last = "a:pPr", "a:endParaRPr"
    invisible = frozenset(
        "lang altLang dirty err noProof smtClean smtId bmk kumimoji".split()
    )

    def mark(self, run: Element, language: str) -> None:
        self.open_properties(run).set("lang", language)

    def turn(self, properties: Element, is_rtl: bool) -> None:
        if is_rtl or "rtl" in properties.attrib:  # a layout may have it too
            properties.set("rtl", str(int(is_rtl)))


class _CellRuns(Runs):
    """Texts of cells: a plain text, or runs."""

    run, properties, text = "x:r", "x:rPr", "x:t"
    #: The reading of Japanese characters, by their positions in the text.
    stale = frozenset({"x:rPh", "x:phoneticPr"})
    is_spaced = True

    def open_run(self, paragraph: Element, style: object) -> Element:
        return super().open_run(paragraph, style) if style else paragraph


def _name_paragraphs() -> ElementNames:
    """Return the element names of a part with Word's paragraphs."""
    fields = _Fields()

    def find_slots(wrapper: Element) -> list[Slot]:
        """Return the texts of all paragraphs; those of text boxes are inside others."""
        paragraphs = (p for p in wrapper.iter(etree.Element) if name_of(p) == "w:p")
        runs = _WordRuns(fields)
        return [slot for paragraph in paragraphs for slot in runs.find_slots(paragraph)]

    blocks = frozenset({"w:p", "w:dataBinding", "w15:dataBinding"})
    return ElementNames(blocks, find_slots, finish=_unbind)


def _unbind(wrapper: Element, language: str) -> bool:
    """Unbind content controls, which would show a property of the document instead."""
    is_bound = next(wrapper.iter("{*}dataBinding"), None) is not None
    etree.strip_elements(wrapper, "{*}dataBinding")
    wrapper.text = ""  # a block that was only a binding needs an end
    return is_bound


def _find_in_shapes(wrapper: Element) -> list[Slot]:
    """Return the texts of paragraphs, of a chart's labels and names, and of plain comments."""
    runs, found = _DrawingRuns(), list[Slot]()
    for element in wrapper.iter():
        if (name := name_of(element)) == "a:p":
            found += runs.find_slots(element)
        elif name in ("c:name", "c:v", "cx:pt", "cx:v", "p:text"):
            found += find_plain_slots(element)
    return found


def _find_in_layout(wrapper: Element) -> list[Slot]:
    """Return the texts of a shape, but none for a placeholder, whose prompt no slide shows."""
    is_prompt = any(name_of(element) == "p:ph" for element in wrapper.iter())
    return [] if is_prompt else _find_in_shapes(wrapper)


#: The labels of charts, whose numbers are in other elements.
_LABELS = frozenset(
    """c:tx c:strCache c:multiLvlStrCache c:strLit c:trendline c15:dlblRangeCache cx:strDim
    cx:txData""".split()
)
_SHAPES = ElementNames(_LABELS | {"a:p", "p:text"}, _find_in_shapes)
_LAYOUT = ElementNames(frozenset({"p:sp"}), _find_in_layout)


def _name_cells(package: Package, types: Mapping[str, str]) -> ElementNames:
    """Return the element names of cells. Table headings stay, as formulas refer to them: Excel
    considers a file damaged if a heading's cell differs from its column's name. A pivot table
    loses the columns whose headings change."""
    headings = {
        _RETURN.sub("", heading).replace("_x000a_", "\n")
        for name, kind in types.items()
        if (column := _COLUMNS.get(kind))
        for heading in package.list_values(name, column, "name")
    }

    def find_slots(wrapper: Element) -> list[Slot]:
        cell = wrapper[0]
        runs = _CellRuns()
        if name_of(cell) == "x:c":
            # SheetJS writes each text as if it were the result of a formula.
            values = [each for each in cell if name_of(each) in ("x:is", "x:v")]
            if not values or find(cell, "x:f") is not None:
                return []
            cell = values[0]
        parts = [*runs.read(cell)] if len(cell) else [cell.text or ""]
        if _RETURN.sub("", "".join(list_texts(parts))) in headings:
            return []
        slots = runs.find_slots(cell) if len(cell) else find_plain_slots(cell)
        return [Slot(_RETURN.sub("", slot.text), slot.write) for slot in slots]

    return ElementNames(
        frozenset({"x:si", "x:c", "x:is", "x:text"}),
        find_slots,
        lambda name, attributes: name == "x:c" and attributes.get("t") not in _TEXTS,
    )


def _list_types(package: Package) -> dict[str, str]:
    """Return the type of each part. Raises DamagedDocument if the list of types is missing."""
    by_ending: dict[str, str] = {}
    types: dict[str, str] = {}
    for element in package.list_elements(_TYPES, "types:Types"):
        for child in element:
            kind = child.get("ContentType") or ""
            if name_of(child) == "types:Default":
                by_ending[(child.get("Extension") or "").lower()] = kind
            elif name_of(child) == "types:Override":
                types[(child.get("PartName") or "").removeprefix("/")] = kind
    for member in package.infolist():
        ending = member.filename.rpartition(".")[2].lower()
        types.setdefault(member.filename, by_ending.get(ending, ""))
    return types


def _name_types(family: str, names: str, part: ElementNames) -> dict[str, ElementNames]:
    return {f"{_DOCUMENT}.{family}.{name}+xml": part for name in names.split()}


_MAIN = "document.main header footer footnotes endnotes comments"
_WORD = _name_types("wordprocessingml", _MAIN, TITLE).keys()
#: The types of parts with texts, except those with Word's paragraphs or with cells.
_PARTS = {
    **_name_types("presentationml", "slide notesSlide comments", _SHAPES),
    **_name_types("presentationml", "slideLayout slideMaster", _LAYOUT),
    **_name_types("drawingml", "chart chartshapes diagramData", _SHAPES),
    f"{_DOCUMENT}.drawing+xml": _SHAPES,
    "application/vnd.ms-office.chartex+xml": _SHAPES,
    "application/vnd.ms-office.drawingml.diagramDrawing+xml": _SHAPES,
    "application/vnd.openxmlformats-package.core-properties+xml": TITLE,
}


def _make_formats(ending: str, name: str, program: str) -> Iterator[Format]:
    """Yield a document's formats, without and with macros. It must have a main part."""
    family, _, kind_name = name.partition(".")
    main = f"{_DOCUMENT}.{name}.main+xml"
    with_macros = f"application/vnd.ms-{program}.{kind_name}.macroEnabled"

    def plan(package: Package) -> Mapping[str, ElementNames]:
        types = {
            name: main if kind == f"{with_macros}.main+xml" else kind
            for name, kind in _list_types(package).items()
        }
        if main not in types.values():
            raise DamagedDocument(
                f"The extension seems wrong: no part is a {family} {kind_name}.main"
            )
        cells = _name_cells(package, types)
        sheets = "sharedStrings worksheet comments"
        known = _PARTS | _name_types("spreadsheetml", sheets, cells)
        return {
            name: _name_paragraphs() if kind in _WORD else known[kind]
            for name, kind in types.items()
            if kind in _WORD or kind in known
        }

    yield make_package_format(f"{ending}x", f"{_DOCUMENT}.{name}", plan)
    yield make_package_format(f"{ending}m", f"{with_macros}.12", plan)


FORMATS = (
    *_make_formats(".doc", "wordprocessingml.document", "word"),
    *_make_formats(".ppt", "presentationml.presentation", "powerpoint"),
    *_make_formats(".xls", "spreadsheetml.sheet", "excel"),
)
