"""Characters that several processes count at the same time."""

import multiprocessing
import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from gateway.access.keys import ApiKey, Grant
from gateway.access.usage import Usage, UsageLedger, find_month
from gateway.errors import KeysUnavailable, QuotaExceeded
from gateway.shared_memory import Lock

KEY = ApiKey("0123456789ab", "cat", "", Grant(characters_per_month=100))
FREE = ApiKey("0123456789ac", "dog", "")
_context = multiprocessing.get_context("spawn")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "usage"


def charge(ledger: UsageLedger, characters: int, key: ApiKey = KEY) -> None:
    with ledger.charge(key, characters):
        pass


def test_what_succeeds_is_counted_and_what_fails_is_not(folder):
    ledger = UsageLedger(folder)
    with ledger.charge(KEY, 30):
        assert ledger.read(KEY) == Usage(0, 100)
    with pytest.raises(ZeroDivisionError), ledger.charge(KEY, 30):
        raise ZeroDivisionError
    assert ledger.read(KEY) == Usage(30, 100)
    charge(ledger, 10**12, FREE)  # without a limit
    assert ledger.read(FREE) == Usage(10**12, None)


def test_a_quota_counts_what_is_under_way(folder):
    ledger = UsageLedger(folder)
    with ledger.charge(KEY, 60), pytest.raises(QuotaExceeded) as refused:
        charge(ledger, 41)
    assert refused.value.extra == {"asked": 41, "used": 60, "limit": 100}
    charge(ledger, 40)
    assert ledger.read(KEY) == Usage(100, 100)


def test_what_other_machines_have_counted_counts(folder):
    ledger = UsageLedger(folder)
    ledger.learn({}, {(KEY.id, find_month(time.time())): 99})
    assert ledger.read(KEY) == Usage(99, 100)
    with pytest.raises(QuotaExceeded):
        charge(ledger, 2)


def charge_and_die(folder: Path) -> None:
    ledger = UsageLedger(folder)
    charge(ledger, 40)
    with ledger.charge(KEY, 50):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_month_begins_at_zero_and_the_last_one_is_still_saved(folder, monkeypatch):
    ledger, now = UsageLedger(folder), 1_767_225_599  # a second before 2026 (UTC)
    monkeypatch.setattr("time.time", lambda: now)
    with ledger.charge(KEY, 100):
        now += 1  # it counts for the month in which it began
    assert ledger.read(KEY) == Usage(0, 100)
    charge(ledger, 7)
    december = 2025 * 12 + 11
    assert ledger.list_unsaved() == {(KEY.id, december): 100, (KEY.id, december + 1): 7}
    now += 32 * 86_400
    assert ledger.read(KEY) == Usage(0, 100)


def test_of_several_processes_only_what_dead_ones_have_reserved_is_free(folder):
    ledger = UsageLedger(folder)
    with ledger.charge(KEY, 10):
        worker = _context.Process(target=charge_and_die, args=(folder,))
        worker.start()
        worker.join(60)
        assert worker.exitcode == -signal.SIGKILL
        other = UsageLedger(folder)
        assert [*other.list_unsaved().values()] == [40]
        with other.charge(KEY, 50), pytest.raises(QuotaExceeded), other.charge(KEY, 1):
            pass
    assert other.read(KEY) == Usage(100, 100)


def test_what_ends_while_the_lock_is_held_counts_afterwards(folder, monkeypatch):
    ledger, held = UsageLedger(folder), Lock(folder / "lock")
    monkeypatch.setattr("gateway.shared_memory._LOCK_S", 0)
    with ExitStack() as other:
        with ledger.charge(KEY, 40):
            other.enter_context(held.hold())
        assert ledger.read(KEY).count == 0
    assert [*ledger.list_unsaved().values()] == [40]


def test_a_full_disk_refuses_new_keys_only(folder, monkeypatch, full_disk):
    ledger = UsageLedger(folder)
    charge(ledger, 1)
    monkeypatch.setattr(os, "posix_fallocate", full_disk)
    with suppress(KeysUnavailable):
        for number in range(10**6):  # until no more fit into the file
            charge(ledger, 1, ApiKey(f"{number:012x}", "pig", ""))
    with pytest.raises(KeysUnavailable):
        charge(ledger, 1, FREE)
    charge(ledger, 1)
