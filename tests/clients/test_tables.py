"""Reading the texts of a file, and writing its bytes or its table with their translations."""

import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from clients import parquet, tables
from clients.errors import InputError
from clients.files import TABLES, find_sources
from clients.tables import Cell, Column, TextReply, TextTable, name_columns, open_table

TEXT = [Column("text", "text_fr")]


def open_file(
    path: Path,
    content: str | bytes,
    columns: Sequence[Column] = TEXT,
    *,
    has_quotes: bool = True,
) -> TextTable:
    """Write a file, and open it as a table."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (source,) = find_sources([str(path)], TABLES)
    return open_table(source, columns, has_quotes=has_quotes)


def complete(table: TextTable) -> bytes:
    """The file with every text to be translated in brackets."""
    cells = list(table.read())
    results = [
        TextReply(f"[{cell.text}]" if cell.is_wanted else cell.text, cell.error)
        for cell in cells
    ]
    file = io.BytesIO()
    has_errors = any(cell.error for cell in cells)
    table.write(file, iter(results), has_errors=has_errors)
    return file.getvalue()


def make_parquet(columns: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def list_cases() -> Iterator[Any]:
    text = Path(__file__).with_name("tables.yaml").read_text("utf-8")
    for name, cases in yaml.safe_load(text.replace("NINES", "9" * 5000)).items():
        for case, pair in cases.items():
            files = (file.encode("utf-8", "surrogateescape") for file in pair)
            yield pytest.param(name, *files, id=f"{name}-{case}")


@pytest.mark.parametrize(("name", "content", "expected"), [*list_cases()])
def test_a_row_gets_translations_and_stays_as_it_is_else(
    tmp_path, name, content, expected
):
    assert complete(open_file(tmp_path / name, content)) == expected


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"text": "\\ud83d"}', "half of a surrogate pair"),
        (b"{", "not JSON, expected an object"),
        (b"[" * 100_000, "not JSON, expected an object"),
        (b"null", "found null, expected an object"),
        (b'{"text": true}', "found a boolean, expected a string"),
    ],
)
def test_a_record_says_what_is_wrong_with_it(tmp_path, content, error):
    good, bad = open_file(tmp_path / "a.jsonl", b'{"text": "a"}\n' + content).read()
    assert good == Cell(1, "a")
    assert (bad.row, bad.text) == (2, None)
    assert error in (bad.error or "")


def test_quotes_may_mean_nothing(tmp_path):
    content = 'text\tn\n"a\t1\nb "c" d\t2\n'
    table = open_file(tmp_path / "a.tsv", content, has_quotes=False)
    assert complete(table) == b'text\tn\ttext_fr\n"a\t1\t["a]\nb "c" d\t2\t[b "c" d]\n'
    file = io.BytesIO()
    table.write(file, iter([TextReply("x\ty\r\nz"), TextReply("")]), has_errors=False)
    assert file.getvalue().splitlines()[1] == b'"a\t1\tx y z'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "x,y,z\na,b,c\nd,,\n", "x,y,z,last,first\na,b,c,[c],[a]\nd,,,,[d]\n"),
        (
            "a.jsonl",
            '{"x": "a", "y": "b", "z": "c"}',
            '{"x": "a", "y": "b", "z": "c", "last": "[c]", "first": "[a]"}',
        ),
    ],
)
def test_several_columns_are_translated(tmp_path, name, content, expected):
    columns = name_columns(["z", "x"], ["last", "first"], "fr")
    assert complete(open_file(tmp_path / name, content, columns)) == expected.encode()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", b"", "a.csv: empty, expected column names"),
        ("a.csv", b"id,body\n", "a.csv has no column text; found id, body"),
        ("a.csv", b"text,text\n", "has more than one column text; found text, text"),
        ("a.csv", b"text,text_fr\n", "a.csv already has text_fr; --into renames"),
        ("a.csv", b"text,text_fr_error\n", "already has text_fr_error"),
        ("a.csv", b'text\na\n"b\nc\n', "a.csv: line 3: a quote is not closed"),
        ("a.csv", b"\xff\xfet\0", "a.csv is UTF-16, expected UTF-8"),
        ("a.tsv", b"a;text\n", "a.tsv has no column text; found a;text"),
        (
            "a.jsonl",
            b'{"b": 1}\n{"c": 1}\n',
            "a.jsonl: no line has text; the first has",
        ),
        ("a.jsonl", b'{"text": "a"}\n{"text_fr": 1}', "line 2: text_fr already exists"),
        ("a.txt", b"\xfe\xff\0a", "a.txt is UTF-16, expected UTF-8"),
        ("a.docx", b"x", "a.docx: expected a file that ends in .csv"),
        ("a.parquet", b"PAR1", "a.parquet: "),
        ("a.parquet", make_parquet({"body": ["a"]}), "has no column text; found body"),
        ("a.parquet", make_parquet({"text": [1]}), "text is int64, expected strings"),
        ("a.parquet", make_parquet({"text": [["a"]]}), "text is list"),
        (
            "a.parquet",
            make_parquet({"text": ["a"], "text_fr": ["b"]}),
            "already has text_fr; --into renames ",
        ),
        (
            "a.parquet",
            make_parquet({"text": ["a"], "body": ["b"]}).replace(b"body", b"b\xffdy"),
            "a.parquet: 'utf-8' codec can't decode",
        ),
    ],
)
def test_a_broken_file_says_where(tmp_path, monkeypatch, name, content, reason):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=reason):
        list(open_file(Path(name), content).read())


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_a_huge_field_is_read_and_a_boundless_one_is_refused(
    tmp_path, monkeypatch, name
):
    longest = 1 << 18
    monkeypatch.setattr(tables, "LONGEST_FIELD", longest)
    path = tmp_path / name
    head, start, end = {
        "a.txt": ("", "", ""),
        "a.csv": (f"text,{'y' * (longest // 2 + 9)}\n", '"', '"'),
        "a.jsonl": ("", '{"text": "', '"}'),
    }[name]
    long = "x " * (longest // 4)
    (cell,) = open_file(path, f"{head}{start}{long}{end}\n").read()
    assert cell.text == long
    table = open_file(path, f"{head}{start}{'x' * longest}{end}\n")
    with pytest.raises(InputError, match="line [12]: (longer than|field larger than)"):
        list(table.read())
    # Without a closing quote, all lines are one field.
    if name == "a.csv":
        table = open_file(path, 'text\n"' + "x\n" * (longest // 2 + 1))
        with pytest.raises(InputError, match="is a quote not closed"):
            list(table.read())


@pytest.mark.parametrize(
    ("names", "into", "reason"),
    [
        (["a", "b"], ["c"], "--into was given 1 times: expected one .* --column, 2"),
        ([], ["c"], "--into was given 1 times"),
        (["a", "b"], ["c", "c"], "two columns have the same name: a, b, c, c_error, c"),
        (["a"], ["a"], "two columns have the same name"),
        (["a", "a"], [], "two columns have the same name"),
    ],
)
def test_names_of_columns_that_do_not_fit_are_refused(names, into, reason):
    with pytest.raises(InputError, match=reason):
        name_columns(names, into, "fr")


def read_completed(table: TextTable) -> Any:
    return pq.read_table(io.BytesIO(complete(table)))


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
    found = read_completed(open_file(tmp_path / "a.parquet", make_parquet(table)))
    assert found.schema.metadata[b"made"] == b"by us"
    assert found.drop_columns(["text_fr"]).equals(table)
    assert found["text_fr"].to_pylist() == ["[a]", None, ""]


TEXT_TYPES = pa.string(), pa.large_string(), pa.string_view()


@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.dictionary(pa.int8(), pa.string())])
@pytest.mark.parametrize("texts", [["a", None, "a"], []])
def test_every_kind_of_string_is_text(tmp_path, kind, texts):
    content = make_parquet({"text": pa.array(texts, kind)})
    table = open_file(tmp_path / "a.parquet", content)
    assert [cell.text for cell in table.read()] == texts
    translated = [text and f"[{text}]" for text in texts]
    assert read_completed(table)["text_fr"].to_pylist() == translated


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_row_groups_and_compression_stay(tmp_path, codec):
    columns = {"text": [str(number) for number in range(10)]}
    path = tmp_path / "a.parquet"
    table = open_file(path, make_parquet(columns, row_group_size=4, compression=codec))
    found = pq.ParquetFile(io.BytesIO(complete(table))).metadata
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    assert [group.num_rows for group in groups] == [4, 4, 2]
    before = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert {group.column(1).compression for group in groups} == {before}


def test_a_large_row_group_is_read_and_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1000)
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 5000)
    texts = [f"text {number} " * 10 for number in range(200)]
    content = make_parquet({"text": texts}, use_dictionary=False)
    table = open_file(tmp_path / "a.parquet", content)
    shares = [table.share for _ in table.read()]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert table.share == 1
    found = pq.ParquetFile(io.BytesIO(complete(table)))
    assert found.num_row_groups > 5
    assert found.read()["text_fr"].to_pylist() == [f"[{text}]" for text in texts]


def test_several_columns_of_parquet_are_translated(tmp_path):
    content = make_parquet({"x": ["a", "d"], "z": ["c", "f"]})
    columns = name_columns(["z", "x"], ["last", "first"], "fr")
    table = open_file(tmp_path / "a.parquet", content, columns)
    assert read_completed(table).to_pylist() == [
        {"x": "a", "z": "c", "last": "[c]", "first": "[a]"},
        {"x": "d", "z": "f", "last": "[f]", "first": "[d]"},
    ]


def test_an_error_has_a_column_of_its_own(tmp_path):
    bad = pa.array([b"a", b"\xff", None], pa.binary()).view(pa.string())
    table = open_file(tmp_path / "a.parquet", make_parquet({"text": bad}))
    cells = list(table.read())
    assert cells[0] == Cell(1, "a")
    assert cells[2] == Cell(3, None)
    assert (cells[1].row, cells[1].text) == (2, None)
    found = read_completed(table)
    assert found["text_fr"].to_pylist() == ["[a]", None, None]
    assert found["text_fr_error"].to_pylist() == [None, cells[1].error, None]
