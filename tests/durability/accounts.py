"""Keys, a quota, and billed characters: powers of four, so that double billing shows."""

from contextlib import closing
from pathlib import Path

import pytest

from gateway.access.keys import ApiKey, Grant
from gateway.access.storage import KeyStorage
from gateway.access.usage import UsageLedger
from gateway.database.connections import StorageError
from gateway.errors import KeysUnavailable, QuotaExceeded
from tests.durability.running import Diary

LIMIT = 1000
BILLS, OTHER_BILL = (1, 4, 16, 64), 256


def open_storage(folder: Path) -> KeyStorage:
    return KeyStorage(f"sqlite:///{folder / 'keys.db'}")


def find_keys(storage: KeyStorage) -> dict[str, tuple[ApiKey, int]]:
    return {key.name: (key, used) for key, used in storage.list_all().items()}


def save(storage: KeyStorage, ledger: UsageLedger) -> None:
    """Save the ledger as the registry does twice a second."""
    counts = ledger.list_unsaved()
    ledger.learn(counts, storage.sync(counts, ledger.id, None).elsewhere)


def prepare(folder: Path) -> None:
    with closing(open_storage(folder)) as storage:
        storage.add("cat", Grant(characters_per_month=LIMIT))


def bill(
    storage: KeyStorage, ledger: UsageLedger, characters: int, diary: Diary
) -> None:
    key = find_keys(storage)["cat"][0]

    def charge() -> None:
        with ledger.charge(key, characters):
            pass

    diary.attempt(f"bill {characters}", charge, KeysUnavailable)


def interfere(folder: Path, diary: Diary) -> None:
    storage, ledger = open_storage(folder), UsageLedger(folder / "accounts")
    bill(storage, ledger, OTHER_BILL, diary)
    save(storage, ledger)


def act(folder: Path, diary: Diary) -> None:
    storage = open_storage(folder)
    ledgers: list[UsageLedger] = []

    def start() -> None:
        find_keys(storage)
        ledgers.append(UsageLedger(folder / "accounts"))

    if not diary.attempt("start", start, OSError, StorageError):
        return
    for number, characters in enumerate(BILLS):
        bill(storage, ledgers[0], characters, diary)
        diary.attempt("save", lambda: save(storage, ledgers[0]), StorageError)
        if number == 0:
            diary.attempt("add", lambda: storage.add("dog", Grant()), StorageError)
        if number == 1:
            diary.attempt("revoke", lambda: storage.revoke("dog"), StorageError)


def list_bills(diary: Diary, word: str) -> set[int]:
    said = (line.partition(" ") for line in diary.find(word))
    return {int(characters) for what, _, characters in said if what == "bill"}


def check(folder: Path, diary: Diary) -> None:
    storage, ledger = open_storage(folder), UsageLedger(folder / "accounts")
    for _ in range(2):
        save(storage, ledger)
    keys = find_keys(storage)
    key, total = keys["cat"]
    billed = {size for size in (*BILLS, OTHER_BILL) if total // size % 4}
    assert sum(billed) == total
    assert list_bills(diary, "done") <= billed <= list_bills(diary, "asked")
    assert not billed & list_bills(diary, "refused")
    assert ledger.read(key).count == total
    with ledger.charge(key, LIMIT - total):
        pass
    with pytest.raises(QuotaExceeded), ledger.charge(key, 1):
        pass
    if "add" in diary.find("done"):
        dog, used = keys["dog"]
        assert used == 0
        assert dog.revoked_at or "revoke" not in diary.find("done")
