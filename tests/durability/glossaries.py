"""Glossaries of two owners, which are created, changed and deleted."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.database.connections import StorageError
from gateway.glossaries.glossary import DictionaryDraft, GlossaryContent
from gateway.glossaries.storage import GlossaryStorage
from gateway.settings import Settings
from tests.durability.running import Diary

OWNERS = ("anna", "ben")
LIMITS = Settings(max_glossaries=3, max_glossary_bytes=100, disk_reserve_bytes=0)
GERMAN, FRENCH = (
    DictionaryDraft("en", "de", b"a\tb", 1),
    DictionaryDraft("en", "fr", b"a\tc\nd\te", 2),
)
MORE = DictionaryDraft("en", "de", b"x\ty", 1)


def list_steps(storage: GlossaryStorage) -> Iterator[Callable[[], Any]]:
    ours = GlossaryContent("Ours", (GERMAN, FRENCH))
    yield lambda: storage.create("anna", ours, LIMITS)
    yield lambda: storage.create("ben", GlossaryContent("Mine", (GERMAN,)), LIMITS)
    this = storage.find("anna", "Ours").id
    more = GlossaryContent("All", (MORE,))
    yield lambda: storage.change("anna", this, more, LIMITS, is_merged=True)
    yield lambda: storage.delete_dictionary("anna", this, ("en", "fr"))
    yield lambda: storage.delete("anna", this)


def describe(storage: GlossaryStorage) -> str:
    found = {
        owner: [
            [
                glossary.name,
                *(
                    f"{each.target} {each.entry_count} {storage.read_entries(each.id)!r}"
                    for each in glossary.dictionaries
                ),
            ]
            for glossary in storage.list_all(owner)
        ]
        for owner in OWNERS
    }
    return json.dumps(found)


def open_storage(folder: Path) -> GlossaryStorage:
    return GlossaryStorage(f"sqlite:///{folder / 'glossaries.db'}")


def prepare(folder: Path) -> None:
    """Create the tables, and record their content after each step."""
    (folder / "draft").mkdir()
    with closing(open_storage(folder / "draft")) as storage:
        seen = [describe(storage)]
        for step in list_steps(storage):
            step()
            seen.append(describe(storage))
    (folder / "seen").write_text(json.dumps(seen))
    with closing(open_storage(folder)) as storage:
        storage.list_all("anna")


def interfere(folder: Path, diary: Diary) -> None:
    open_storage(folder).create("carl", GlossaryContent("Other", (GERMAN,)), LIMITS)
    diary.tell("made", "carl")


def act(folder: Path, diary: Diary) -> None:
    storage = open_storage(folder)
    for number, step in enumerate(list_steps(storage), 1):
        if not diary.attempt(str(number), step, StorageError):
            return


def check(folder: Path, diary: Diary) -> None:
    storage = open_storage(folder)
    seen = json.loads((folder / "seen").read_text())
    asked, refused = len(diary.find("asked")), len(diary.find("refused"))
    done = len(diary.find("done"))
    assert describe(storage) in seen[done : asked - refused + 1]
    assert len(storage.list_all("carl")) == len(diary.find("made"))
