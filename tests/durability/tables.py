"""A database that its first user creates."""

from pathlib import Path

from gateway.access.keys import Grant
from gateway.access.storage import KeyStorage
from gateway.database.connections import StorageError
from tests.durability.running import Diary


def open_storage(folder: Path) -> KeyStorage:
    return KeyStorage(f"sqlite:///{folder / 'new/keys.db'}")


def interfere(folder: Path, diary: Diary) -> None:
    open_storage(folder).add("dog", Grant())
    diary.tell("made", "dog")


def act(folder: Path, diary: Diary) -> None:
    add = open_storage(folder).add
    diary.attempt("add", lambda: add("cat", Grant()), StorageError)


def check(folder: Path, diary: Diary) -> None:
    storage = open_storage(folder)
    names = {key.name for key in storage.list_all()}
    assert names - {"cat"} == set(diary.find("made"))
    assert ("cat" in names) >= len(diary.find("done"))
    assert ("cat" in names) <= 1 - len(diary.find("refused"))
