"""The results of every format, whatever is in the sources."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clients.sources import find_sources
from clients.tables import Cell
from ray_backend.bulk import texts
from tests.ray_backend.bulk.conftest import Bench


def test_every_format_keeps_its_rows(bench):
    bench.write("a.txt", "one\n\ntwo\r\nthree")
    bench.write("b.jsonl", '{"text": "one", "n": 1e400}\n\n{"text": null}\n')
    bench.write("c.csv", 'id,text\n1,"one\ntwo"\n')
    bench.write("d.tsv", "text\nthree\n")
    table = pa.table({"id": list(range(9)), "text": [f"x {n}" for n in range(9)]})
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=3)
    bench.write("e.parquet", out.getvalue())
    assert bench.run()[0].failed == 0
    assert (bench.results / "a.fr.txt").read_bytes() == b"ONE\n\nTWO\r\nTHREE"
    assert bench.read("b.fr.jsonl").splitlines() == [
        '{"text": "one", "n": 1e400, "text_fr": "ONE"}',
        "",
        '{"text": null, "text_fr": null}',
    ]
    assert bench.read("c.fr.csv") == 'id,text,text_fr\n1,"one\ntwo","ONE\nTWO"\n'
    assert bench.read("d.fr.tsv") == "text\ttext_fr\nthree\tTHREE\n"
    written = pq.ParquetFile(bench.results / "e.fr.parquet")
    assert written.num_row_groups == 3
    assert written.read().column("text_fr").to_pylist() == [f"X {n}" for n in range(9)]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
def test_files_without_rows_have_results_without_rows(bench, name):
    out = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), out)
    bench.write(name, out.getvalue() if name == "a.parquet" else "")
    ended, _ = bench.run()
    assert (ended.count, ended.failed) == (0, 0)
    result = bench.results / name.replace("a.", "a.fr.")
    if name == "a.parquet":
        assert pq.read_table(result).num_rows == 0
    else:
        assert result.read_bytes() == b""


def test_rows_that_cannot_be_translated_hurt_no_other(bench):
    lines = ['{"text": "one"}', "no JSON", '{"text": 5}', '{"text": "bad"}', "[]"]
    bench.write("a.jsonl", "\n".join([*lines, '{"text": "two"}\n']))
    assert bench.run()[0].failed == 4
    one, broken, five, bad, array, two = bench.read("a.fr.jsonl").splitlines()
    assert json.loads(one)["text_fr"] == "ONE"
    assert json.loads(two)["text_fr"] == "TWO"
    assert (broken, array) == ("no JSON", "[]")
    assert json.loads(five)["text_fr_error"] == "found a number, expected a string"
    assert json.loads(bad) == {"text": "bad", "text_fr": None, "text_fr_error": "No."}


def test_a_broken_file_is_written_up_to_the_broken_place(bench):
    rows = "".join(f"{n},x {n}\n" for n in range(9))
    bench.write("a.csv", f'id,text\n{rows}9,"open\n')
    assert bench.run()[0].failed == 1
    assert bench.read("a.fr.csv").splitlines()[-1] == "8,x 8,X 8"
    assert "a quote is not closed" in bench.errors[0]


def test_a_file_that_cannot_be_read_at_all_has_no_result(bench):
    bench.write("a.parquet", b"no Parquet")
    bench.write("b.txt", "one\n")
    assert bench.run()[0].failed == 1
    assert not (bench.results / "a.fr.parquet").exists()
    assert bench.read("b.fr.txt") == "ONE\n"


def test_small_files_go_to_the_model_together(bench):
    bench.most_texts = 100
    for n in range(50):
        bench.write(f"{n:02}.txt", f"file {n}\n")
    bench.run()
    assert [len(batch) for batch in bench.handler.batches] == [50]
    assert [bench.read(f"{n:02}.fr.txt") for n in range(50)] == [
        f"FILE {n}\n" for n in range(50)
    ]


def test_no_more_is_read_than_workers_take(bench: Bench, monkeypatch):
    bench.write("a.txt", "one\n" * 100_000)
    rows: list[int] = []

    def make_cell(row: int, text: str) -> Cell:
        rows.append(row)
        return Cell(row, text)

    monkeypatch.setattr(Cell, "of", make_cell)
    monkeypatch.setattr(texts, "_SMALL_BYTES", 0)
    job = bench.make_job()
    chunks = job.read(find_sources([str(bench.sources)], job.kind), set())
    assert [len(next(chunks).items) for _ in range(3)] == [bench.most_texts] * 3
    assert len(rows) <= 5 * bench.most_texts
