"""What processes share: places that end with their process, locks, and memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.sharing import Lock, list_dead_places, map_file, take_place


def test_a_place_is_free_again_when_its_process_has_ended(tmp_path: Path):
    (lock, place), (_, next_place) = take_place(tmp_path), take_place(tmp_path)
    assert (place, next_place) == (0, 1)
    assert list_dead_places(tmp_path) == []
    os.close(lock)  # as the system does
    assert list_dead_places(tmp_path) == [0]
    assert take_place(tmp_path)[1] == 0
    assert list_dead_places(tmp_path) == []


def test_a_lock_keeps_others_out_until_it_is_let_go(tmp_path: Path):
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    with first.hold(), pytest.raises(TimeoutError), second.hold(0):
        pass
    with second.hold(0):
        pass
    for lock in (first, second):
        lock.close()


def test_where_the_disk_is_full_memory_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert len(map_file(tmp_path, "a", 100)) == 100
    assert "is not shared: No space left on device" in caplog.text
