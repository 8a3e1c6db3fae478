"""The common base of Office Open XML's documents: a list of their parts by type, and
refusals.
"""

from __future__ import annotations

from collections.abc import Mapping

from documents.errors import DamagedDocument, RefusedContent
from documents.formats.blocks import ElementNames
from documents.formats.drawing import SHAPES, TITLE
from documents.formats.names import name_of
from documents.formats.packages import Package, Plan

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
