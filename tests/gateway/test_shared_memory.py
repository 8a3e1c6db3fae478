"""Memory that processes share: places that end with their process, locks and tables."""

import os
from pathlib import Path

import pytest

from gateway.shared_memory import Lock, SharedTable, lock_file, map_file, take_place


def test_a_place_is_free_again_when_its_process_has_ended(tmp_path: Path):
    places = [take_place(tmp_path) or (-1, -1) for _ in range(2)]
    assert [place for _, place in places] == [0, 1]
    assert lock_file(tmp_path / "0.lock") is None
    os.close(places[0][0])  # as the system does
    _, place = take_place(tmp_path) or (-1, -1)
    assert place == 0


def test_a_lock_keeps_others_out_until_it_is_let_go(tmp_path: Path):
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    with first.hold(), pytest.raises(TimeoutError), second.hold(0):
        pass
    with second.hold(0):
        pass
    for lock in (first, second):
        lock.close()


def test_where_the_disk_is_full_memory_is_not_shared(
    tmp_path, monkeypatch, caplog, full_disk
):
    monkeypatch.setattr(os, "posix_fallocate", full_disk)
    assert map_file(tmp_path, "a", 100) is None
    assert "is not shared: No space left on device" in caplog.text


def test_processes_find_the_same_rows(tmp_path: Path):
    first, second = (SharedTable(tmp_path / "table", 2) for _ in range(2))
    first.find(7)[1] = 70
    assert second.get(8) is None
    second.find(8)[0] = 80
    assert (first.read_ids(), second.read_ids()) == ([7, 8], [7, 8])
    assert (first.read_column(0), second.read_column(1)) == ([0, 80], [70, 0])


def test_a_table_grows_and_what_was_cut_before_stays_valid(tmp_path: Path):
    first, second = (SharedTable(tmp_path / "table", 1) for _ in range(2))
    row = first.find(10**12)
    for number in range(5000):
        second.find(number)[0] = number
    row[0] = 5
    assert second.find(10**12)[0] == 5
    assert first.find(4999)[0] == 4999
    assert sum(first.read_column(0)) == sum(range(5000)) + 5
    assert SharedTable(tmp_path / "table", 1).read_ids() == [10**12, *range(5000)]
