"""Durable files are complete and in their place, and leave no draft."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from contract import durable


@pytest.fixture(params=["state.json", "ü" * 127 + "x"], ids=["short", "longest"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return tmp_path / str(request.param)


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_its_owners(target):
    durable.write(target, "ä")
    other = target.with_name("other")
    durable.write(other, "b")
    durable.rename(other, target)
    assert target.read_text() == "b"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list_names(target.parent) == [target.name]


def test_a_block_that_raises_leaves_what_was_there(target):
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), durable.create(target) as file:
        file.write(b"new" * (1 // 0))
    assert target.read_text() == "old"
    assert list_names(target.parent) == [target.name]


def test_writers_wait_for_each_other(target):
    contents = [str(number) * 10_000 for number in range(8)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda each: durable.write(target, each), contents * 8))
    assert target.read_text() in contents
    assert list_names(target.parent) == [target.name]


def test_a_writer_waits_with_a_limit(target, monkeypatch):
    monkeypatch.setattr(durable, "_WAIT_S", 0.05)
    with durable.create(target), pytest.raises(TimeoutError, match="still writes"):
        durable.write(target, "new")
    assert target.read_text() == ""


def test_the_first_writer_wins(target: Path):
    with ThreadPoolExecutor() as threads:
        found = set(threads.map(durable.make_secret, [target] * 64))
    assert found == {target.read_text()}
    assert list_names(target.parent) == [target.name]


def test_a_log_grows_where_it_ended_or_was_cut(target):
    log = durable.AppendLog(target)
    assert log.append(b"a\n") == 0
    assert log.append(b"torn") == 2
    log.truncate(2)
    log.close()
    log = durable.AppendLog(target)
    assert log.append(b"b\n") == 2
    log.sync()
    log.close()
    assert target.read_bytes() == b"a\nb\n"


def test_a_log_keeps_nothing_of_what_failed(target, monkeypatch):
    log = durable.AppendLog(target)
    log.append(b"whole\n")
    with monkeypatch.context() as patch:
        patch.setattr(durable, "_SYNC_EVERY_S", -1.0)
        patch.setattr(log, "sync", Mock(side_effect=OSError("the disk is full")))
        with pytest.raises(OSError, match="full"):
            log.append(b"not on the disk\n")
    log.append(b"next\n")
    log.close()
    assert target.read_bytes() == b"whole\nnext\n"


def test_a_lock_has_one_owner(target):
    first, second = (os.open(target, os.O_CREAT | os.O_RDWR) for _ in range(2))
    assert durable.try_lock(first)
    assert not durable.try_lock(second)
    durable.unlock(first)
    assert durable.try_lock(second)
    os.close(first)
    os.close(second)
