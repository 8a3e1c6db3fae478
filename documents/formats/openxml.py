"""The common ground of all documents of Office Open XML: a list of their parts by type, the
texts in drawings, charts and diagrams, and what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from documents.errors import DamagedDocument, RefusedContent
from documents.formats.blocks import ElementNames
from documents.formats.format import LanguagePair
from documents.formats.fragments import Element, Part, Slot, beside, name_of
from documents.formats.packages import Package, Plan
from documents.formats.runs import (
    Copies,
    Runs,
    Style,
    find_plain_slot,
    is_right_to_left,
)


class DrawingRuns(Runs):
    """Paragraphs of shapes. A link is a property of a run."""

    run, properties, text = "a:r", "a:rPr", "a:t"
    first, last = frozenset({"a:pPr"}), frozenset({"a:endParaRPr"})
    invisible = frozenset(
        "lang altLang dirty err noProof smtClean smtId bmk kumimoji".split()
    )

    def mark(self, run: Element, languages: LanguagePair) -> None:
        """See Runs."""
        self.open_properties(run).set("lang", languages.target)

    def build(
        self,
        paragraph: Element,
        base: Style | None,
        parts: Sequence[Part],
        languages: LanguagePair,
    ) -> None:
        """See Runs; the paragraph gets the direction of the language."""
        super().build(paragraph, base, parts, languages)
        properties = next((c for c in paragraph if name_of(c) == "a:pPr"), None)
        if is_right_to_left(languages.target):
            if properties is None:
                properties = paragraph.makeelement(beside(paragraph, "pPr"))
                paragraph.insert(0, properties)
            properties.set("rtl", "1")
        elif properties is not None:
            properties.attrib.pop("rtl", None)


def find_slots(wrapper: Element) -> list[Slot]:
    """The texts of paragraphs, of a chart's labels and names, and of plain comments."""
    runs, found = DrawingRuns(Copies()), []
    for element in wrapper.iter():
        name = name_of(element)
        if name == "a:p":
            found.append(runs.find_slot(element))
        elif name in ("c:v", "p:text", "dc:title"):
            found.append(find_plain_slot(element))
    return [slot for slot in found if slot]


#: Parts with shapes. Numbers in a chart's cache are elsewhere.
SHAPES = ElementNames(frozenset({"a:p", "c:strCache", "p:text"}), find_slots)
TITLE = ElementNames(frozenset({"dc:title"}), find_slots)


_TYPES = "[Content_Types].xml"
_DOCUMENT = "application/vnd.openxmlformats-officedocument"
_SHARED = {
    f"{_DOCUMENT}.drawing+xml": SHAPES,
    f"{_DOCUMENT}.drawingml.chart+xml": SHAPES,
    f"{_DOCUMENT}.drawingml.chartshapes+xml": SHAPES,
    f"{_DOCUMENT}.drawingml.diagramData+xml": SHAPES,
    "application/vnd.ms-office.drawingml.diagramDrawing+xml": SHAPES,
    "application/vnd.openxmlformats-package.core-properties+xml": TITLE,
}


def list_types(package: Package) -> dict[str, str]:
    """The type of each part that the document names.

    Raises RefusedContent if one holds macros, and DamagedDocument if there is no list.
    """
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
    for name, kind in types.items():
        if "macroEnabled" in kind or kind == "application/vnd.ms-office.vbaProject":
            raise RefusedContent(f"{name}: the document has macros: save it without")
    return types


def make_plan(family: str, main: str, parts: Mapping[str, ElementNames]) -> Plan:
    """The plan of one kind of document. `parts` are those with texts, by the last words of
    their types; `main` is the one that the document must have."""
    prefix = f"{_DOCUMENT}.{family}."
    known = {**_SHARED, **{f"{prefix}{name}+xml": v for name, v in parts.items()}}

    def plan(package: Package) -> Mapping[str, ElementNames]:
        types = list_types(package)
        if f"{prefix}{main}+xml" not in types.values():
            raise DamagedDocument(
                f"Not what its name says: no part is a {family} {main}"
            )
        return {name: known[kind] for name, kind in types.items() if kind in known}

    return plan
