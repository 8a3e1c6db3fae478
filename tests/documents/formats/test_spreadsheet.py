"""Spreadsheets: texts of cells, and what formulas need to stay as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents.formats.spreadsheet import FORMAT
from tests.documents.formats.packing import mark, pack_openxml, translate, unpack
from tests.documents.formats.samples import make_xlsx

X = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
BOLD = "<rPr><b/></rPr>"


def pack_xlsx(
    folder: Path, strings: str = "", sheet: str = "", table: str = ""
) -> Path:
    parts = {
        "workbook.xml": ("sheet.main", "<workbook/>"),
        "sheet.xml": ("worksheet", f'<worksheet xmlns="{X}">{sheet}</worksheet>'),
        "strings.xml": ("sharedStrings", f'<sst xmlns="{X}">{strings}</sst>'),
        "table.xml": ("table", f'<table xmlns="{X}">{table}</table>'),
    }
    typed = {n: (f"spreadsheetml.{kind}+xml", c) for n, (kind, c) in parts.items()}
    return pack_openxml(folder / "a.xlsx", typed)


CASES = {
    "plain": ("<t>Hello</t>", ["Hello"], "<t>HELLO</t>"),
    "with spaces": ("<t> a </t>", [" a "], '<t xml:space="preserve"> A </t>'),
    "runs": (
        f"<r><t>Press </t></r><r>{BOLD}<t>Go</t></r>",
        ['Press <g id="1">Go</g>'],
        f'<r><t xml:space="preserve">PRESS </t></r><r>{BOLD}<t>GO</t></r>',
    ),
    "runs that look the same": (
        f"<r>{BOLD}<t>Hel</t></r><r>{BOLD}<t>lo</t></r>",
        ["Hello"],
        f"<r>{BOLD}<t>HELLO</t></r>",
    ),
    "with its reading": (
        '<t>漢a</t><rPh sb="0" eb="1"><t>kan</t></rPh><phoneticPr fontId="1"/>',
        ["漢a"],
        "<t>漢A</t>",
    ),
    "a number": ("<t>12</t>", [], "<t>12</t>"),
    "empty": ("", [], None),
}


@pytest.mark.parametrize(("inner", "texts", "written"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("place", ["strings", "sheet"])
def test_a_cell_is_one_text(
    tmp_path: Path, inner: str, texts: list[str], written: str | None, place: str
):
    name = "si" if place == "strings" else "is"
    source = pack_xlsx(tmp_path, **{place: f"<{name}>{inner}</{name}>"})
    assert list(FORMAT.read(source, "de")) == texts
    assert unpack(translate(FORMAT, source, str)) == unpack(source)
    after = unpack(translate(FORMAT, source, mark))[f"{place}.xml"].decode()
    assert f"<{name}>{inner if written is None else written}</{name}>" in after


def test_formulas_and_their_results_stay(tmp_path: Path):
    cells = '<c t="str"><f>IF(A1="Yes","a","b")</f><v>a text</v></c>'
    assert list(FORMAT.read(pack_xlsx(tmp_path, sheet=cells), "de")) == []


def test_the_headings_of_tables_stay(tmp_path: Path):
    columns = '<tableColumn name="Net_x000a_price"/><tableColumn name="Name"/>'
    names = "<si><t>Name</t></si><si><t>Net\nprice</t></si><si><t>Names</t></si>"
    source = pack_xlsx(tmp_path, strings=names, table=columns)
    assert list(FORMAT.read(source, "de")) == ["Names"]


def test_only_the_parts_with_texts_change(tmp_path: Path):
    source = make_xlsx(tmp_path / "a.xlsx")
    before, after = unpack(source), unpack(translate(FORMAT, source, mark))
    assert list(after) == list(before)
    assert {name for name in before if before[name] != after[name]} == {
        "xl/sharedStrings.xml",
        "xl/comments1.xml",
        "xl/charts/chart1.xml",
        "xl/drawings/drawing1.xml",
        "docProps/core.xml",
    }
