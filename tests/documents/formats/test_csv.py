"""Tables: dialects, quotes, and which cells are texts."""

from __future__ import annotations

import tracemalloc

import pytest

from documents.errors import DocumentTooLarge
from documents.formats import csv
from documents.formats.format import DocumentContext
from tests.documents.formats.translating import read


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
        next(csv.COMMAS.read(path, DocumentContext("de")))
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
