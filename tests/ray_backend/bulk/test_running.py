"""Runs that end at any place, are repeated, or find something there."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

import pytest

from clients.errors import ClientError
from ray_backend.bulk.folder import Folder
from ray_backend.bulk.manifest import NAME
from ray_backend.bulk.workspace import Workspace
from tests.ray_backend.bulk.conftest import Stop, check, fill


def test_files_of_any_size_are_translated(bench):
    texts = fill(bench)
    ended, here = bench.run()
    check(bench, texts)
    assert (ended.skipped, ended.count, ended.failed) == (0, 21, 0)
    assert bench.shares == sorted(bench.shares)
    assert bench.shares[-1] == pytest.approx(1.0)
    assert max(map(len, bench.handler.batches)) == bench.most_texts


@pytest.mark.parametrize("stop_after", range(8))
def test_a_run_that_was_killed_goes_on_where_it_was(bench, stop_after):
    texts = fill(bench)
    with pytest.raises(Stop):
        bench.run(stop_after=stop_after)
    done = sum(len(batch) for batch in bench.handler.batches)
    ended, _ = bench.run()
    check(bench, texts)
    asked = sum(len(batch) for batch in bench.handler.batches)
    # Only what was under way when the run stopped is asked for again.
    assert asked - 21 <= bench.most_texts
    assert ended.count >= 21 - done


def test_a_repeated_run_does_nothing(bench):
    texts = fill(bench)
    bench.run()
    bench.handler.batches.clear()
    ended, _ = bench.run()
    check(bench, texts)
    assert (ended.skipped, ended.count, ended.failed) == (4, 0, 0)
    assert bench.handler.batches == []


def test_the_manifest_describes_each_result(bench):
    bench.write("a.txt", "one\nbad two\n")
    bench.run()
    (record,) = bench.read_records(NAME)
    content = (bench.results / "a.fr.txt").read_bytes()
    assert record["bytes"] == len(content)
    assert record["sha256"] == hashlib.sha256(content).hexdigest()
    assert (record["rows"], record["errors"], record["warnings"]) == (2, 1, 0)
    assert record["file"] == str(bench.sources / "a.txt")


def test_errors_of_an_earlier_run_still_count(bench):
    bench.write("a.txt", "one\nbad two\n")
    assert bench.run()[0].failed == 1
    assert bench.errors == [f"{bench.sources}/a.txt: line 2: No."]
    assert bench.run()[0].failed == 1
    assert bench.errors[1:] == ["a.fr.txt: 1 have no result, since an earlier run"]


def test_a_result_without_a_record_is_somebody_elses_and_stays(bench):
    bench.write("a.txt", "one\n")
    bench.results.mkdir()
    (bench.results / "a.fr.txt").write_text("mine")
    assert bench.run()[0].skipped == 1
    assert bench.read("a.fr.txt") == "mine"


def test_a_record_whose_file_never_got_its_name_is_dropped(bench):
    bench.write("a.txt", "one\n")
    bench.run()
    (bench.results / "a.fr.txt").unlink()
    with (bench.results / NAME).open("a") as file:
        file.write('{"torn')
    bench.run()
    assert bench.read("a.fr.txt") == "ONE\n"
    assert len(bench.read_records(NAME)) == 1


def test_torn_files_are_removed_and_never_count(bench):
    bench.write("a.txt", "one\n")
    bench.write(".b.txt.0123abcd.part", "torn")
    bench.results.mkdir()
    for name in (".a.fr.txt.0123abcd.part", "movie.part", ".mine.part"):
        (bench.results / name).write_text("torn")
    bench.run()
    assert bench.list_results() == [".mine.part", "a.fr.txt", NAME, "movie.part"]


def test_a_source_that_has_changed_is_told(bench):
    source = bench.write("a.txt", "one\n")
    bench.run()
    os.utime(source, (1, 1))
    assert bench.run()[0].failed == 1
    assert "has changed since a.fr.txt was written" in bench.errors[0]
    bench.run(is_overwrite=True)
    assert bench.run()[0].failed == 0


def test_overwriting_removes_first_so_that_a_killed_run_goes_on(bench):
    texts = fill(bench)
    bench.run()
    with pytest.raises(Stop):
        bench.run(is_overwrite=True, stop_after=0)
    assert bench.list_results() != []
    assert not (bench.results / "a.fr.jsonl").exists()
    bench.run()
    check(bench, texts)


def test_a_run_does_not_go_on_with_other_options(bench):
    fill(bench)
    with pytest.raises(Stop):
        bench.run(stop_after=1)
    other = replace(
        bench.make_task(), wanted=replace(bench.make_task().wanted, source=None)
    )
    with pytest.raises(ClientError, match="with other options was begun there"):
        bench.run(task=other)
    bench.run(task=other, is_overwrite=True)
    assert not (bench.results / ".bulk").exists()


def test_two_runs_do_not_write_into_one_folder(bench):
    bench.write("a.txt", "one\n")
    with (
        Workspace(Folder(bench.results)).open({}, is_restart=False),
        pytest.raises(ClientError, match="another run writes there"),
    ):
        bench.run()


def test_results_may_be_beside_their_sources(bench):
    bench.write("a.txt", "one\n")
    bench.results = bench.sources
    bench.run()
    assert bench.run()[0].skipped == 1
    assert bench.list_results() == ["a.fr.txt", "a.txt", NAME]


def test_a_folder_that_cannot_be_written_is_named(bench):
    bench.write("a.txt", "one\n")
    bench.results.write_text("a file")
    with pytest.raises(ClientError, match="dst: Not a directory"):
        bench.run()


def test_a_text_that_ends_its_worker_is_an_error_of_its_own(bench):
    bench.write_records("a.jsonl", ["one", "kill", "three"])
    bench.handler.deadly = {"kill"}
    ended, here = bench.run()
    one, kill, three = bench.read_records("a.fr.jsonl")
    assert (one["text_fr"], three["text_fr"]) == ("ONE", "THREE")
    assert kill["text_fr_error"] == "each worker that translated this text has ended"
    assert ended.failed == 1
    assert here.deaths < 12


def test_a_source_that_changes_meanwhile_has_no_result(bench):
    source = bench.write("a.txt", "one\n")
    bench.handler.before = lambda: os.utime(source, (1, 1))
    assert bench.run()[0].failed == 1
    assert bench.errors == [f"{source} has changed meanwhile"]
    assert not (bench.results / "a.fr.txt").exists()


@pytest.mark.parametrize("name", ["a\udcff.txt"], ids=["no UTF-8"])
def test_a_name_that_no_manifest_can_hold_is_refused(bench, name):
    bench.write(name, "one\n")
    with pytest.raises(ClientError, match="the name is not in UTF-8"):
        bench.run()
