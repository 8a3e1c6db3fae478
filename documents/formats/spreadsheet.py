"""Spreadsheets (.xlsx): texts of cells, comments, text boxes and charts. Formulas stay, and so
do the headings of tables, which formulas name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from documents.formats.blocks import ElementNames
from documents.formats.format import LanguagePair
from documents.formats.fragments import Atom, Element, Slot, Span, name_of
from documents.formats.openxml import list_types, make_plan
from documents.formats.packages import Package, make_package_format
from documents.formats.runs import (
    Copies,
    Runs,
    Style,
    Text,
    find_plain_slot,
    keep_spaces,
)

_TABLE = "application/vnd.openxmlformats-officedocument.spreadsheetml.table+xml"
_CELLS = frozenset({"x:si", "x:is", "x:text"})
#: The reading of Japanese letters, by their positions in the text as it was.
_STALE = frozenset({"x:rPh", "x:phoneticPr"})


class _CellRuns(Runs):
    """Texts of cells: a plain text, or runs."""

    run, properties, text = "x:r", "x:rPr", "x:t"

    def read(self, paragraph: Element) -> Iterator[Text | Atom | Span]:
        """See Runs."""
        for child in paragraph:
            name = name_of(child)
            if name == self.text:
                yield Text(child.text or "", None)
            elif name == self.run:
                yield from self.read_run(child)
            elif name not in _STALE:
                yield Atom(((child, None),))

    def add_run(
        self,
        paragraph: Element,
        text: str,
        style: Style | None,
        languages: LanguagePair,
    ) -> None:
        """See Runs; a text without style stands in no run."""
        if style is None:
            self.add_text(paragraph, text)
        else:
            super().add_run(paragraph, text, style, languages)

    def add_text(self, owner: Element, text: str) -> None:
        """See Runs."""
        super().add_text(owner, text)
        keep_spaces(owner[-1])


def _make_vocabulary(headings: frozenset[str]) -> ElementNames:
    def find_slots(wrapper: Element) -> list[Slot]:
        cell = wrapper[0]
        runs = _CellRuns(Copies())
        slot = runs.find_slot(cell) if len(cell) else find_plain_slot(cell)
        is_heading = "".join(cell.itertext()) in headings
        return [slot] if slot and not is_heading else []

    return ElementNames(_CELLS, find_slots)


def _list_headings(package: Package) -> frozenset[str]:
    """The names of all columns of tables. A cell with another text than its column's name
    makes the file a damaged one for Excel."""
    tables = (name for name, kind in list_types(package).items() if kind == _TABLE)
    return frozenset(
        (column.get("name") or "").replace("_x000a_", "\n")
        for table in tables
        for column in package.list_elements(table, "x:tableColumn")
    )


def _plan(package: Package) -> Mapping[str, ElementNames]:
    cells = _make_vocabulary(_list_headings(package))
    parts = dict.fromkeys(("sharedStrings", "worksheet", "comments"), cells)
    return make_plan("spreadsheetml", "sheet.main", parts)(package)


FORMAT = make_package_format(
    ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", _plan
)
