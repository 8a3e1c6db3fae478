"""Runs that end at any place or find something there, and what is in their results."""

from __future__ import annotations

import io
import json
import os
from contextlib import contextmanager
from dataclasses import replace
from errno import ENOSPC

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clients.errors import ClientError
from clients.files import find_sources
from clients.tables import Cell
from ray_backend.bulk import tasks
from ray_backend.bulk.storage import ResultFolder
from tests.ray_backend.bulk.conftest import REQUEST, Bench, Stop, check, fill

FUTURE_S = 2**33


def test_files_of_any_size_are_translated(bench):
    texts = fill(bench)
    totals, _ = bench.run()
    check(bench, texts)
    assert (totals.skipped, totals.count, totals.failed) == (0, 21, 0)
    assert bench.shares == sorted(bench.shares)
    assert bench.shares[-1] == pytest.approx(1.0)
    assert max(map(len, bench.handler.batches)) == bench.most_texts


def test_errors_of_an_unfinished_run_still_count(bench):
    bench.most_texts = 2
    bench.write("a.txt", "one\nbad two\n")
    bench.write("b.txt", "three\n")
    with pytest.raises(Stop):
        bench.run(stop_after=1)
    assert bench.run()[0].failed == 1
    expected = "an earlier, unfinished run has left texts without a result"
    assert bench.errors[-1] == expected
    assert bench.run()[0].failed == 0


def test_a_result_that_is_there_stays(bench):
    bench.write("a.txt", "one\n")
    bench.results.mkdir()
    (bench.results / "a.fr.txt").write_text("mine")
    assert bench.run()[0].skipped == 1
    assert bench.read("a.fr.txt") == "mine"


def test_what_a_kill_has_torn_never_counts(bench):
    texts = {"a.jsonl": ["one"] * 9}
    bench.write_records("a.jsonl", texts["a.jsonl"])
    with pytest.raises(Stop):
        bench.run(stop_after=2)
    # The draft of a part, and that of the result.
    (*_, part) = sorted((bench.results / ".bulk").glob("*-000001"))
    part.rename(part.with_name(f".{part.name}.draft"))
    (bench.results / ".a.fr.jsonl.draft").write_text("torn")
    (bench.results / "a.fr.jsonl.new").write_text("torn")
    bench.run()
    (bench.results / ".a.fr.jsonl.draft").unlink(missing_ok=True)
    (bench.results / "a.fr.jsonl.new").unlink(missing_ok=True)
    check(bench, texts)


def test_a_source_that_has_changed_is_told(bench):
    source = bench.write("a.txt", "one\n")
    bench.run()
    os.utime(source, (FUTURE_S, FUTURE_S))
    assert bench.run()[0].failed == 1
    assert "has changed since a.fr.txt was written" in bench.errors[0]
    os.utime(source, (1, 1))
    assert bench.run(is_overwrite=True)[0].skipped == 0
    assert bench.run()[0].failed == 0


def test_a_run_does_not_go_on_with_other_options(bench):
    fill(bench)
    with pytest.raises(Stop):
        bench.run(stop_after=1)
    other = replace(bench.make_job(), request=replace(REQUEST, source=None))
    with pytest.raises(ClientError, match="with other options was begun there"):
        bench.run(job=other)
    bench.run(job=other, is_overwrite=True)
    assert not (bench.results / ".bulk").exists()


def test_two_runs_do_not_write_into_one_folder(bench):
    bench.write("a.txt", "one\n")
    with (
        ResultFolder(bench.results).lock(),
        pytest.raises(ClientError, match="another run writes there"),
    ):
        bench.run()


def test_results_may_be_beside_their_sources(bench):
    bench.write("a.txt", "one\n")
    bench.results = bench.sources
    bench.run()
    assert bench.run()[0].skipped == 1
    assert bench.list_results() == ["a.fr.txt", "a.txt"]


def test_a_folder_that_cannot_be_written_is_named(bench):
    bench.write("a.txt", "one\n")
    bench.results.write_text("a file")
    with pytest.raises(ClientError, match="dst: File exists"):
        bench.run()


def test_a_full_disk_ends_a_run_that_goes_on_later(bench, monkeypatch):
    texts = fill(bench)
    create = ResultFolder.create

    @contextmanager
    def fail(self, name):
        with create(self, name) as file:
            yield file
            if name.endswith("-000001"):
                file.flush()
                raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ResultFolder, "create", fail)
        with pytest.raises(ClientError, match="No space left on device"):
            bench.run()
    bench.run()
    check(bench, texts)


def test_a_text_that_ends_its_worker_is_an_error_of_its_own(bench):
    bench.write_records("a.jsonl", ["one", "kill", "three"])
    bench.handler.deadly = {"kill"}
    totals, here = bench.run()
    one, kill, three = bench.read_records("a.fr.jsonl")
    assert (one["text_fr"], three["text_fr"]) == ("ONE", "THREE")
    assert kill["text_fr_error"] == "each worker that translated this text has ended"
    assert totals.failed == 1
    assert here.deaths < 12


def test_a_name_that_is_not_in_utf8_is_refused(bench: Bench):
    bench.write("a\udcff.txt", "one\n")
    with pytest.raises(ClientError, match="the name is not in UTF-8"):
        bench.run()


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
    monkeypatch.setattr(tasks, "_SMALL_BYTES", 0)
    job = bench.make_job()
    chunks = job.read(find_sources([str(bench.sources)], job.kind), set())
    assert [len(next(chunks).items) for _ in range(3)] == [bench.most_texts] * 3
    assert len(rows) <= 5 * bench.most_texts
