"""Tables: dialects, quotes, and which cells are texts."""

from __future__ import annotations

import pytest

from documents.errors import DocumentTooLarge
from documents.formats import csv
from tests.documents.formats.translating import read


def test_a_row_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(csv, "MAX_LINE", 100)
    with pytest.raises(DocumentTooLarge, match="Row 2 has more than 100"):
        read("a.csv", b'a,b\n1,"' + b"open\n" * 100)


def test_a_row_of_too_many_cells_is_an_error(monkeypatch):
    monkeypatch.setattr(csv, "_MAX_CELLS", 100)
    assert read("a.csv", b"a1,b1\n" + b"," * 99) == []
    with pytest.raises(DocumentTooLarge, match="Row 2 has more than 100 cells"):
        read("a.csv", b"a1,b1\n" + b"," * 100)
