"""Counts each key's characters by month, exactly: in memory that all gateway processes of
this machine share. `registry.py` writes the counts to the database.

What a request may use is reserved before it is translated, and counted or given back
afterwards. What a killed process had reserved is given back when the next one starts.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.access.keys import Key
from gateway.errors import KeysUnavailable, QuotaExceeded
from gateway.sharing import PROCESSES, Lock, list_dead_places, map_file, take_place

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SUFFIX = ".usage"
#: The longest wait for other processes that start, each of which looks at all accounts.
_START_S = 30.0
_NUMBER_BYTES = 8
#: An account has this month and the last one; each has its month, the count that the database
#: has, and every process' counted and reserved characters.
_MONTHS = 2
_MONTH, _SAVED, _COUNTED, _RESERVED = 0, 1, 2, 2 + PROCESSES
_FIELDS = 2 + 2 * PROCESSES


@dataclass(frozen=True)
class Usage:
    """A key's characters of this month. A `limit` of None is no limit."""

    count: int
    limit: int | None


@dataclass(frozen=True)
class Count:
    """The characters that a key has used in a month, numbered from the year 0."""

    key_id: str
    month: int
    characters: int


def find_month(seconds: float) -> int:
    """The number of the month (UTC) at a Unix time."""
    date = time.gmtime(seconds)
    return date.tm_year * 12 + date.tm_mon - 1


class Ledger:
    """All accounts, seen from one process. Its id names it in the database: a new one begins
    with the machine, or where the folder is new."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = Lock(folder / "lock")
        self._accounts: dict[str, Account] = {}
        self._elsewhere: Mapping[tuple[str, int], int] = {}
        with self._lock.hold(_START_S):
            self.id = _read_ledger_id(folder)
            self._place_lock, self._place = take_place(folder)
            self._give_back_of_dead()

    @contextmanager
    def charge(self, key: Key, characters: int) -> Iterator[None]:
        """Counts `characters` if the block succeeds. Raises QuotaExceeded before it begins if
        the key has fewer left."""
        account, month = self._open(key.id), find_month(time.time())
        limit = key.grant.characters_per_month
        try:
            with self._lock.hold():
                used = account.sum(month) + self._elsewhere.get((key.id, month), 0)
                if limit is not None and used + characters > limit:
                    raise QuotaExceeded(characters, used, limit)
                account.reserve(month, characters)
        except TimeoutError as error:
            raise KeysUnavailable("The key's usage cannot be looked up now.") from error
        try:
            yield
            account.count(month, characters)
        finally:
            account.give_back(month, characters)

    def read(self, key: Key) -> Usage:
        """What the key has used, without what is being translated."""
        month = find_month(time.time())
        here = self._open(key.id).sum_counted(month)
        elsewhere = self._elsewhere.get((key.id, month), 0)
        return Usage(here + elsewhere, key.grant.characters_per_month)

    def list_unsaved(self) -> list[Count]:
        """What this ledger has counted and the database does not have."""
        return [
            Count(key_id, month, characters)
            for key_id, account in self._accounts.items()
            for month, characters in account.list_unsaved()
        ]

    def mark_saved(self, counts: Iterable[Count]) -> None:
        """Says that the database has these."""
        for count in counts:
            self._accounts[count.key_id].mark_saved(count.month, count.characters)

    def learn(self, elsewhere: Mapping[tuple[str, int], int]) -> None:
        """Takes over what other ledgers have counted, by key and month."""
        self._elsewhere = elsewhere

    def _open(self, key_id: str) -> Account:
        account = self._accounts.get(key_id)
        if account is None:
            size = _MONTHS * _FIELDS * _NUMBER_BYTES
            memory = map_file(self._folder, key_id + _SUFFIX, size)
            account = Account(memoryview(memory).cast("q"), self._place)
            self._accounts[key_id] = account
        return account

    def _give_back_of_dead(self) -> None:
        dead = {self._place, *list_dead_places(self._folder)}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            self._open(path.stem).give_back_of(dead)


class Account:
    """One key's months. Each process writes numbers of its own; a reader adds them up."""

    def __init__(self, values: memoryview, place: int) -> None:
        self._values = values
        self._place = place

    def sum(self, month: int) -> int:
        """What has been counted or reserved."""
        return sum(self._turn_to(month)[_COUNTED:])

    def sum_counted(self, month: int) -> int:
        """What has been counted."""
        values = self._find(month)
        return sum(values[_COUNTED:_RESERVED]) if values[_MONTH] == month else 0

    def reserve(self, month: int, characters: int) -> None:
        """Keeps characters for a request."""
        self._turn_to(month)[_RESERVED + self._place] += characters

    def count(self, month: int, characters: int) -> None:
        """Counts what was reserved; `give_back` follows."""
        self._find(month)[_COUNTED + self._place] += characters

    def give_back(self, month: int, characters: int) -> None:
        """Ends a reservation."""
        self._find(month)[_RESERVED + self._place] -= characters

    def give_back_of(self, places: Iterable[int]) -> None:
        """Ends all reservations of these places."""
        for month in range(_MONTHS):
            for place in places:
                self._find(month)[_RESERVED + place] = 0

    def list_unsaved(self) -> Iterator[tuple[int, int]]:
        """Months and counts that the database does not have."""
        for values in map(self._find, range(_MONTHS)):
            counted = sum(values[_COUNTED:_RESERVED])
            if counted != values[_SAVED]:
                yield values[_MONTH], counted

    def mark_saved(self, month: int, characters: int) -> None:
        """Says what the database has."""
        values = self._find(month)
        if values[_MONTH] == month:
            values[_SAVED] = max(values[_SAVED], characters)

    def _find(self, month: int) -> memoryview:
        first = month % _MONTHS * _FIELDS
        return self._values[first : first + _FIELDS]

    def _turn_to(self, month: int) -> memoryview:
        """The month's numbers, which were those of the last month but one."""
        values = self._find(month)
        if values[_MONTH] != month:
            for i in range(_FIELDS):
                values[i] = 0
            values[_MONTH] = month
        return values


def _read_ledger_id(folder: Path) -> str:
    """The ledger's id. What is there from before the last boot may have lost what it had not
    written to the disk yet: the database knows better."""
    boot, file = _BOOT_ID.read_text().strip(), folder / "ledger"
    known, _, ledger_id = (
        file.read_text().partition(" ") if file.exists() else ("",) * 3
    )
    if known == boot and ledger_id:
        return ledger_id
    for path in folder.glob(f"*{_SUFFIX}"):
        path.unlink()
    ledger_id = uuid.uuid4().hex
    file.write_text(f"{boot} {ledger_id}")
    return ledger_id
