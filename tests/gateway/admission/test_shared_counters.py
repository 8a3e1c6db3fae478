"""The counters that gateway processes share, among themselves and with workers."""

import os
import time
from array import array
from pathlib import Path

import numpy as np
import pytest

from gateway import shared_memory
from gateway.admission.shared_counters import ROWS, ModelLoad, SharedCounters
from gateway.shared_memory import PROCESSES
from handlers.base import ROWS_FILE

LOAD = ModelLoad(3, 30.0, 300, 4, 40.0, 5.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ROWS_FILE.parent


def test_processes_add_up(folder: Path):
    first, second = (SharedCounters(folder).open("ko") for _ in range(2))
    first.publish(LOAD)
    second.publish(ModelLoad(1, 10.0, 100, 0, 0.0, 7.0))
    assert first.read() == second.read() == (ModelLoad(4, 40.0, 400, 4, 40.0, 7.0), 1)
    assert SharedCounters(folder).open("fr").read() == (ModelLoad(), 0)


@pytest.mark.parametrize("age_s", [60, -60], ids=["silent", "of another boot"])
def test_a_process_that_says_nothing_does_not_count(folder, age_s, monkeypatch):
    first, second = (SharedCounters(folder).open("ko") for _ in range(2))
    now = time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now - age_s)
        first.publish(LOAD)
    assert second.read() == (ModelLoad(), 0)


def test_what_is_published_while_somebody_reads_counts(folder, monkeypatch):
    first, second = (SharedCounters(folder).open("ko") for _ in range(2))
    first.publish(LOAD)
    before = time.monotonic() - 0.01
    monkeypatch.setattr(time, "monotonic", lambda: before)
    assert second.read() == (LOAD, 1)


def test_a_process_that_waits_for_a_slow_batch_counts_for_itself(monkeypatch):
    model = SharedCounters().open("ko")
    model.publish(LOAD)
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert model.read() == (LOAD, 1)


def test_a_process_counts_even_if_another_overwrote_the_number_of_places(folder):
    first, second = (SharedCounters(folder).open("ko") for _ in range(2))
    first._memory[:2] = memoryview(array("d", [1, 0]))  # and has long been silent
    assert second.read() == (ModelLoad(), 0)


def test_a_place_that_is_free_again_begins_empty(folder: Path):
    stale = np.full(1 + PROCESSES * 7, time.monotonic())
    folder.mkdir()
    (folder / "ko.model").write_bytes(stale.tobytes())
    counters = SharedCounters(folder)
    before, _ = counters.open("ko").read()
    after, _ = SharedCounters(folder).open("ko").read()
    assert after.sent_rows < before.sent_rows


def test_a_torn_file_is_made_whole(folder: Path):
    folder.mkdir()
    (folder / "rows").write_bytes(b"\1")
    (folder / "ko.model").write_bytes(b"")
    counters = SharedCounters(folder)
    counters.open("ko").publish(LOAD)
    assert (folder / "rows").stat().st_size == PROCESSES * ROWS


def test_a_process_without_a_place_sees_itself(folder, monkeypatch, caplog):
    monkeypatch.setattr(shared_memory, "PROCESSES", 2)
    first, second, third = (SharedCounters(folder) for _ in range(3))
    assert {first.place, second.place} == {0, 1}
    assert "2 processes already use" in caplog.text
    first.open("ko").publish(LOAD)
    alone = third.open("ko")
    assert alone.read() == (ModelLoad(), 0)
    alone.publish(LOAD)
    assert alone.read() == second.open("ko").read() == (LOAD, 1)
    assert third.take_number() is None


def test_a_process_that_began_on_a_full_disk_numbers_no_rows(
    folder, monkeypatch, caplog, full_disk
):
    """Workers read the file, which the next process makes once there is room again."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full_disk)
        counters = SharedCounters(folder)
        alone = counters.open("ko")
    assert "is not shared: No space left on device" in caplog.text
    assert counters.take_number() is None
    assert SharedCounters(folder).take_number() is not None
    alone.publish(LOAD)
    assert alone.read() == (LOAD, 1)


def test_where_numbers_run_out_rows_have_none(folder: Path):
    counters = SharedCounters(folder)
    assert None not in [counters.take_number() for _ in range(ROWS)]
    assert counters.take_number() is None
