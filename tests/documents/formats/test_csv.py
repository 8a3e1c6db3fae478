"""Tables: dialects, quotes, and which cells are texts."""

from __future__ import annotations

import tracemalloc

import pytest

from documents.errors import DamagedDocument, DocumentTooLarge
from documents.formats import csv
from tests.documents.formats.translating import keep, read, shout, translate


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.csv", "Name,Note\nthe first,a note\n", "Name Note the_first a_note"),
        ("a.csv", "Name;Note\na, b;c\n", "Name Note a,_b c"),
        ("a.csv", "Name\tNote\na, b\tc\n", "Name Note a,_b c"),
        ("a.csv", "Name|Note\na, b|c\n", "Name Note a,_b c"),
        ("a.csv", "sep=;\nname;note\na b;c d", "name note a_b c_d"),
        ("a.tsv", "Name\tNote, long\n", "Name Note,_long"),
        ("a.csv", "First, then\nSecond\n", "First then Second"),
        (
            "a.csv",
            "Just lines\nwithout cells, mostly\n",
            "Just_lines without_cells,_mostly",
        ),
        ("a.csv", "id,text\n1,good morning\n", "good_morning"),
        ("a.csv", "", ""),
    ],
    ids="comma semicolon tab pipe declared tsv ragged none names empty".split(),
)
def test_the_first_rows_tell_the_dialect(name, content, texts):
    assert read(name, content.encode()) == [
        text.replace("_", " ") for text in texts.split()
    ]


@pytest.mark.parametrize(
    ("row", "new"),
    [
        ('1,"a, b",x y', '1,"A, B",X Y'),
        ('"say ""hi""",2,3', '"SAY ""HI""",2,3'),
        ('"two\r\nlines",2,3', '"TWO\r\nLINES",2,3'),
        ("=A1&B1,@sum x,-x y", None),
        ("2030-01-31,https://a.b,user_id", None),
        (" a b ,5' pipe,+49 30", " A B ,5' PIPE,+49 30"),
        ('5" pipe,,', '"5"" PIPE",,'),
        ('"a"b c,2,3', '"AB C",2,3'),
    ],
    ids="quoted doubled lines formulas codes space inch sloppy".split(),
)
def test_cells_are_translated_and_everything_else_stays(row, new):
    content = f"A1,B2,C3\r\n{row}\r\n1,2,3"
    expected = content.replace(row, new or row)
    assert translate("a.csv", content.encode(), shout) == expected.encode()
    assert translate("a.csv", content.encode(), keep) == content.encode()


def test_a_translation_with_a_delimiter_is_quoted():
    content = b"A1,B2\na b,1\n"
    assert translate("a.csv", content, lambda _: 'x, "y"') == b'A1,B2\n"x, ""y""",1\n'


def test_a_quote_that_does_not_end_is_an_error():
    with pytest.raises(DamagedDocument, match="row 2 does not end"):
        read("a.csv", b'a,b\n1,"open\nand more\n')


def test_a_row_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(csv, "MAX_LINE", 100)
    with pytest.raises(DocumentTooLarge, match="Row 2 has more than 100"):
        read("a.csv", b'a,b\n1,"' + b"open\n" * 100)


def test_a_table_takes_the_memory_of_a_row(tmp_path):
    """The first rows are counted and not kept."""
    row = ",".join(["ab"] * 4_000) + "\n"
    path = tmp_path / "a.csv"
    path.write_text(row * 30)
    tracemalloc.start()
    try:
        next(csv.COMMAS.read(path, "de"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The cells of all rows are 15 MB.
    assert peak < 4_000_000


def test_a_row_of_too_many_cells_is_an_error(monkeypatch):
    monkeypatch.setattr(csv, "_MAX_CELLS", 100)
    assert read("a.csv", b"a1,b1\n" + b"," * 99) == []
    with pytest.raises(DocumentTooLarge, match="Row 2 has more than 100 cells"):
        read("a.csv", b"a1,b1\n" + b"," * 100)
