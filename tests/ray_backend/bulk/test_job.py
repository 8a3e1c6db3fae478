"""Runs that end at any place, are repeated, or find something there."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from errno import ENOSPC

import pytest

from clients.errors import ClientError
from ray_backend.bulk.storage import ResultFolder
from tests.ray_backend.bulk.conftest import (
    REQUEST,
    Bench,
    Stop,
    check,
    fill,
)

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
    assert len(bench.errors) == 1
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
