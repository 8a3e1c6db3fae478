"""Counts each key's characters per month exactly, in memory that all gateway processes of this
machine share. `registry.py` writes the counts to the database.

A request's characters are reserved before it is translated, then counted or released. Each
process also records its reservations in its own file. A process that starts adds up the files
of the living ones, which releases what a killed one had reserved.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from contract import durable
from gateway.access.keys import ApiKey
from gateway.errors import KeysUnavailable, QuotaExceeded
from gateway.shared_memory import Lock, SharedTable, lock_file

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_ACCOUNTS, _SUFFIX = "accounts", ".reserved"
#: The longest wait for other starting processes, each of which reads all accounts.
_START_S = 30.0
#: An account covers this month and the last one. Each has its number, the count in the
#: database, and the characters that all processes have counted and reserved.
_MONTHS = 2
_MONTH, _SAVED, _COUNTED, _RESERVED = range(4)
_FIELDS = 4

#: Characters by the id of a key and a month, numbered from the year 0.
Counts = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Usage:
    """A key's characters this month. A `limit` of None means no limit."""

    count: int
    limit: int | None


def find_month(seconds: float) -> int:
    """The number of the month (UTC) at a Unix time."""
    date = time.gmtime(seconds)
    return date.tm_year * 12 + date.tm_mon - 1


class UsageLedger:
    """All accounts, as one process sees them. The database stores counts by its id: a new
    ledger begins when the machine boots, or if the folder is new."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(folder / "lock")
        self._elsewhere: Counts = {}
        #: Ended charges that are not settled yet: the key's account of the month, the row of
        #: this process's reservations, the month, the characters, and whether they count.
        self._ended: deque[tuple[memoryview, memoryview, int, int, bool]] = deque()
        with self._lock.hold(_START_S):
            self.id = _read_ledger_id(folder)
            self._accounts = SharedTable(folder / _ACCOUNTS, _MONTHS * _FIELDS)
            self._give_back_of_dead(folder)
            own = folder / f"{uuid.uuid4().hex}{_SUFFIX}"
            self._own_lock = lock_file(own)
            self._own = SharedTable(own, _MONTHS)

    @contextmanager
    def charge(self, key: ApiKey, characters: int) -> Iterator[None]:
        """Reserve `characters` for a `with` block, and count them if it succeeds. Raises
        KeysUnavailable, and QuotaExceeded if the key has fewer left."""
        month = find_month(time.time())
        row_id = int(key.id, 16)
        limit = key.grant.characters_per_month
        try:
            with self._lock.hold():
                self._settle()
                account = self._turn_to(month, row_id)
                own = self._own.find(row_id)
                used = account[_COUNTED] + account[_RESERVED]
                used += self._elsewhere.get((key.id, month), 0)
                if limit is not None and used + characters > limit:
                    raise QuotaExceeded(
                        f"These texts have {characters} characters. This key has used {used} "
                        f"of its {limit} characters for this month; the next month begins on "
                        "the 1st at 00:00 UTC.",
                        asked=characters,
                        used=used,
                        limit=limit,
                    )
                own[month % _MONTHS] += characters
                account[_RESERVED] += characters
        except OSError as error:  # also TimeoutError
            raise KeysUnavailable("The key's usage cannot be looked up now.") from error
        is_done = False
        try:
            yield
            is_done = True
        finally:
            self._ended.append((account, own, month, characters, is_done))
            self._settle_all()

    def read(self, key: ApiKey) -> Usage:
        """Return the key's usage, without texts that are being translated."""
        month = find_month(time.time())
        count = self._elsewhere.get((key.id, month), 0)
        values = self._accounts.get(int(key.id, 16))
        if values:
            account = _find_month(values, month)
            count += account[_COUNTED] if account[_MONTH] == month else 0
        return Usage(count, key.grant.characters_per_month)

    def list_unsaved(self) -> Counts:
        """Return the counts of all processes that are not in the database."""
        self._settle_all()
        found: dict[tuple[str, int], int] = {}
        read = self._accounts.read_column
        for first in range(0, _MONTHS * _FIELDS, _FIELDS):
            columns = [read(first + field) for field in (_MONTH, _SAVED, _COUNTED)]
            rows = zip(self._accounts.read_ids(), *columns, strict=False)
            found |= {
                (f"{row_id:012x}", month): count
                for row_id, month, saved, count in rows
                if count != saved
            }
        return found

    def learn(self, saved: Counts, elsewhere: Counts) -> None:
        """Record the counts in the database: saved ones of this ledger, and those of others."""
        self._elsewhere = elsewhere
        for (key_id, month), characters in saved.items():
            values = self._accounts.get(int(key_id, 16))
            account = _find_month(values, month) if values else None
            if account and account[_MONTH] == month:
                account[_SAVED] = max(account[_SAVED], characters)

    def _settle_all(self) -> None:
        """Settle all ended charges. If the lock stays taken, the next call settles them."""
        with suppress(OSError):
            if self._ended:
                with self._lock.hold():
                    self._settle()

    def _settle(self) -> None:
        """Settle ended charges. If the process is killed meanwhile, the characters are counted,
        and the next process to start adds the reservations up again."""
        while self._ended:
            account, own, month, characters, is_done = self._ended[0]
            if account[_MONTH] == month:
                account[_COUNTED] += characters if is_done else 0
                account[_RESERVED] -= characters
            own[month % _MONTHS] -= characters
            self._ended.popleft()

    def _turn_to(self, month: int, row_id: int) -> memoryview:
        """Return an account's part for this month, cleared if it was of an earlier one."""
        account = _find_month(self._accounts.find(row_id), month)
        if account[_MONTH] != month:
            for field in (_SAVED, _COUNTED, _RESERVED):
                account[field] = 0
            account[_MONTH] = month
        return account

    def _give_back_of_dead(self, folder: Path) -> None:
        """Release the reservations of processes that have ended."""
        locks = {path: lock_file(path) for path in folder.glob(f"*{_SUFFIX}")}
        dead = {path: lock for path, lock in locks.items() if lock is not None}
        if not dead:
            return
        for row_id in self._accounts.read_ids():
            for month in range(_MONTHS):
                _find_month(self._accounts.find(row_id), month)[_RESERVED] = 0
        for path in locks.keys() - dead.keys():
            self._add_reserved(SharedTable(path, _MONTHS))
        for path, lock in dead.items():
            path.unlink()
            os.close(lock)

    def _add_reserved(self, other: SharedTable) -> None:
        for month in range(_MONTHS):
            reserved = zip(other.read_ids(), other.read_column(month), strict=False)
            for row_id, characters in reserved:
                _find_month(self._accounts.find(row_id), month)[_RESERVED] += characters


def _find_month(values: memoryview, month: int) -> memoryview:
    first = month % _MONTHS * _FIELDS
    return values[first : first + _FIELDS]


def _read_ledger_id(folder: Path) -> str:
    """Return the ledger's id. A new ledger begins after a boot: the files of the old one may
    lack counts that were not on disk yet, but the database has them."""
    boot = _BOOT_ID.read_text().strip()
    file = folder / "ledger"
    known, _, ledger_id = (
        file.read_text().partition(" ") if file.exists() else ("",) * 3
    )
    if known == boot and ledger_id:
        return ledger_id
    (folder / _ACCOUNTS).unlink(missing_ok=True)
    ledger_id = uuid.uuid4().hex
    durable.write(file, f"{boot} {ledger_id}")
    return ledger_id
