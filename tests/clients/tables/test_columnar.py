"""Parquet files that PyArrow has written, and what it reads of them afterwards."""

from __future__ import annotations

import io
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clients.errors import InputError
from clients.sources import TABLES, find_sources
from clients.tables import columnar, open_table
from clients.tables.table import Cell, CellResult, Column, TextTable, name_columns


def open_file(path: Path, columns: list[Column] | None = None) -> TextTable:
    (source,) = find_sources([str(path)], TABLES)
    return open_table(source, columns or [Column("text", "text_fr")])


def write(path: Path, columns: dict[str, Any], **options: Any) -> TextTable:
    pq.write_table(pa.table(columns), path, **options)
    return open_file(path)


def complete(table: TextTable) -> io.BytesIO:
    """The file with each text in brackets."""
    cells = list(table.read())
    results = [CellResult(f"[{c.text}]" if c.text else c.text, c.error) for c in cells]
    file = io.BytesIO()
    table.write(file, iter(results), has_errors=any(cell.error for cell in cells))
    return file


def test_rows_and_types_stay(tmp_path):
    columns = {
        "id": pa.array([1, 2, None], pa.uint16()),
        "text": pa.array(["a", None, ""]),
        "when": pa.array(
            [datetime(2030, 1, 2)] * 3, pa.timestamp("us", "Europe/Berlin")
        ),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.00")]),
        "tags": pa.array([["x"], [], None], pa.list_(pa.string())),
        "place": pa.array([{"x": 1, "y": None}, None, {"x": 2, "y": "b"}]),
        "kind": pa.array(["k", "l", "k"]).dictionary_encode(),
    }
    table = pa.table(columns).replace_schema_metadata({"made": "by us"})
    pq.write_table(table, tmp_path / "a.parquet")
    found = pq.read_table(complete(open_file(tmp_path / "a.parquet")))
    assert found.schema.metadata[b"made"] == b"by us"
    assert found.drop_columns(["text_fr"]).equals(table)
    assert found["text_fr"].to_pylist() == ["[a]", None, ""]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_every_kind_of_string_is_text(tmp_path, kind):
    table = write(tmp_path / "a.parquet", {"text": pa.array(["a", None, "a"], kind)})
    assert [cell.text for cell in table.read()] == ["a", None, "a"]
    assert pq.read_table(complete(table))["text_fr"].to_pylist() == ["[a]", None, "[a]"]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_row_groups_and_compression_stay(tmp_path, codec):
    columns = {"text": [str(number) for number in range(10)]}
    path = tmp_path / "a.parquet"
    table = write(path, columns, row_group_size=4, compression=codec)
    found = pq.ParquetFile(complete(table)).metadata
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    assert [group.num_rows for group in groups] == [4, 4, 2]
    before = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert {group.column(1).compression for group in groups} == {before}


def test_a_large_row_group_is_read_and_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "_BATCH_BYTES", 1000)
    monkeypatch.setattr(columnar, "_GROUP_BYTES", 5000)
    texts = [f"text {number} " * 10 for number in range(200)]
    table = write(tmp_path / "a.parquet", {"text": texts}, use_dictionary=False)
    shares = [table.share for _ in table.read()]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert table.share == 1
    found = pq.ParquetFile(complete(table))
    assert found.num_row_groups > 5
    assert found.read()["text_fr"].to_pylist() == [f"[{text}]" for text in texts]


def test_several_columns_are_translated_in_any_order(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": ["a", "d"], "y": ["b", None], "z": ["c", "f"]}), path)
    table = open_file(path, name_columns(["z", "x"], ["last", "first"], "fr"))
    assert pq.read_table(complete(table)).to_pylist() == [
        {"x": "a", "y": "b", "z": "c", "last": "[c]", "first": "[a]"},
        {"x": "d", "y": None, "z": "f", "last": "[f]", "first": "[d]"},
    ]


def test_an_error_has_a_column_of_its_own(tmp_path):
    bad = pa.array([b"a", b"\xff", None], pa.binary()).view(pa.string())
    table = write(tmp_path / "a.parquet", {"text": bad})
    cells = list(table.read())
    assert cells[0] == Cell(1, "a")
    assert cells[2] == Cell(3, None)
    assert (cells[1].row, cells[1].text) == (2, None)
    found = pq.read_table(complete(table))
    assert found["text_fr"].to_pylist() == ["[a]", None, None]
    assert found["text_fr_error"].to_pylist() == [None, cells[1].error, None]


def test_a_table_without_rows_has_the_column(tmp_path):
    table = write(tmp_path / "a.parquet", {"text": pa.array([], pa.string())})
    assert pq.read_table(complete(table)).schema.names == ["text", "text_fr"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"body": ["a"]}, "has no column text: body"),
        ({"text": [1]}, "text is int64, expected strings"),
        ({"text": [["a"]]}, "text is list"),
        ({"text": ["a"], "text_fr": ["b"]}, "has text_fr already; --into renames ours"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, columns, reason):
    with pytest.raises(InputError, match=reason):
        list(write(tmp_path / "a.parquet", columns).read())


def test_a_broken_file_is_written_up_to_there(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [f"text {number}" for number in range(3000)]
    options = {"row_group_size": 1000, "compression": "gzip", "use_dictionary": False}
    write(path, {"text": texts}, **options)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset + 40
    content[start : start + 200] = b"\0" * 200
    path.write_bytes(content)
    table = open_file(path)
    results: list[CellResult] = []
    with pytest.raises(InputError, match="a.parquet: "):
        results.extend(CellResult(cell.text) for cell in table.read())
    assert len(results) == 1000
    file = io.BytesIO()
    with pytest.raises(InputError, match="a.parquet: "):
        table.write(file, iter(results), has_errors=False)
    assert pq.read_table(file)["text_fr"].to_pylist() == texts[:1000]
