"""Glossaries in real databases of SQLite and PostgreSQL."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from gateway.errors import BodyTooLarge, DiskFull, TooManyGlossaries, UnknownGlossary
from gateway.glossaries import storage as glossary_storage
from gateway.glossaries.glossary import DictionaryDraft, Glossary, GlossaryContent
from gateway.glossaries.storage import GlossaryStorage
from gateway.settings import Settings

LIMITS = Settings(max_glossaries=3, max_glossary_bytes=100, disk_reserve_bytes=0)
LARGE = DictionaryDraft("en", "de", b"a\tbbbbbbbbbb", 1)
GERMAN = DictionaryDraft("en", "de", b"a\tb", 1)
FRENCH = DictionaryDraft("en", "fr", b"a\tc\nd\te", 2)
OURS = GlossaryContent("Ours", (GERMAN,))
BOTH = GlossaryContent("Ours", (GERMAN, FRENCH))


@pytest.fixture
def storage(database: str) -> Iterator[GlossaryStorage]:
    found = GlossaryStorage(database)
    yield found
    found.close()


def add(storage, made: Glossary, *drafts: DictionaryDraft) -> Any:
    """Merge drafts into a glossary."""
    content = GlossaryContent(None, drafts)
    return storage.change("", made.id, content, LIMITS, is_merged=True)


def list_pairs(glossary: Glossary) -> list[tuple[str, str, int]]:
    return [(d.source, d.target, d.entry_count) for d in glossary.dictionaries]


def test_a_glossary_is_there_after_a_restart(storage, database):
    made = storage.create("anna", GlossaryContent("Ours", (FRENCH, GERMAN)), LIMITS)
    assert (made.name, list_pairs(made)) == ("Ours", [("en", "de", 1), ("en", "fr", 2)])
    other = GlossaryStorage(database)
    assert other.list_all("anna") == [made]
    assert other.find("anna", "Ours") == other.find("anna", made.id) == made
    assert other.read_entries(made.find("en", "de").id) == b"a\tb"
    assert other.read_entries("none") is None
    other.close()


def test_nobody_sees_another_owners(storage):
    made = storage.create("anna", OURS, LIMITS)
    assert storage.list_all("") == []
    for owner, wanted in (("ben", made.id), ("anna", "Ours\0")):
        with pytest.raises(UnknownGlossary):
            storage.find(owner, wanted)
    with pytest.raises(UnknownGlossary):
        storage.delete("ben", made.id)
    with pytest.raises(UnknownGlossary):
        storage.delete_dictionary("ben", made.id, ("en", "de"))
    with pytest.raises(UnknownGlossary):
        storage.change("ben", made.id, GlossaryContent("Mine", ()), LIMITS)
    assert storage.list_all("anna") == [made]


def test_a_changed_dictionary_has_another_id(storage):
    made = storage.create("", BOTH, LIMITS)
    more = DictionaryDraft("en", "de", b"x\ty\na\tz", 2)
    merged = add(storage, made, more)
    old, new = made.find("en", "de"), merged.find("en", "de")
    assert storage.read_entries(old.id) is None
    assert storage.read_entries(new.id) == b"a\tz\nx\ty"
    assert merged.find("en", "fr") == made.find("en", "fr")
    changed = storage.change("", made.id, GlossaryContent("Mine", (more,)), LIMITS)
    assert (changed.name, changed.created_at_ms) == ("Mine", made.created_at_ms)
    assert storage.read_entries(changed.find("en", "de").id) == b"x\ty\na\tz"


def test_what_is_deleted_is_gone(storage):
    made = storage.create("", BOTH, LIMITS)
    storage.delete_dictionary("", made.id, ("en", "de"))
    assert list_pairs(storage.list_all("")[0]) == [("en", "fr", 2)]
    with pytest.raises(UnknownGlossary, match="from en to de"):
        storage.delete_dictionary("", made.id, ("en", "de"))
    storage.delete("", made.id)
    assert storage.list_all("") == []
    assert storage.read_entries(made.find("en", "fr").id) is None


def test_number_and_size_have_limits(storage):
    for _ in range(LIMITS.max_glossaries):
        made = storage.create("", OURS, LIMITS)
    with pytest.raises(TooManyGlossaries):
        storage.create("", OURS, LIMITS)
    storage.create("anna", OURS, LIMITS)
    large = DictionaryDraft("en", "fr", b"a\t" + b"b" * 96, 1)
    with pytest.raises(BodyTooLarge, match="may have 100 bytes"):
        storage.change("", made.id, GlossaryContent("Mine", (large,)), LIMITS)
    assert storage.find("", made.id) == made


def test_number_has_a_limit_even_if_all_come_at_once(storage):
    assert storage.list_all("") == []  # makes the tables

    def create(_: int) -> None:
        with suppress(TooManyGlossaries):
            storage.create("", OURS, LIMITS)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(8)))
    assert len(storage.list_all("")) == LIMITS.max_glossaries


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"glossaries_kept_bytes_of_one": 13}, BodyTooLarge),
        ({"glossaries_kept_bytes": 16}, DiskFull),
    ],
    ids=["of an owner", "of all"],
)
def test_what_is_kept_has_limits(storage, limits, error):
    limits = LIMITS.model_copy(update=limits)
    made = storage.create("ben", OURS, LIMITS)
    other = storage.create("anna", BOTH, limits)
    for _ in range(2):  # a replacement needs no more space
        storage.change("anna", other.id, GlossaryContent(None, (GERMAN,)), limits)
    with pytest.raises(error):
        storage.create("anna", GlossaryContent("More", (FRENCH,)), limits)
    with pytest.raises(error):
        storage.change("anna", other.id, GlossaryContent(None, (FRENCH, LARGE)), limits)
    storage.delete("anna", other.id)
    assert storage.list_all("ben") == [made]
    storage.create("anna", GlossaryContent("Again", (FRENCH,)), limits)


def test_a_part_of_the_disk_stays_free(tmp_path):
    storage = GlossaryStorage(f"sqlite:///{tmp_path}/keys.db")
    with pytest.raises(DiskFull):
        storage.create("", OURS, Settings(disk_reserve_bytes=1 << 60))
    assert storage.list_all("") == []
    storage.close()


def test_a_merge_keeps_what_another_client_has_added_meanwhile(storage, monkeypatch):
    made = storage.create("", OURS, LIMITS)
    others = iter([DictionaryDraft("en", "de", b"x\ty", 1)])
    merge = glossary_storage._merge

    def merge_late(*given):
        for other in others:
            add(storage, made, other)
        return merge(*given)

    monkeypatch.setattr(glossary_storage, "_merge", merge_late)
    more = [DictionaryDraft("en", "de", each, 1) for each in (b"c\td", b"e\tf")]
    merged = add(storage, made, *more)
    entries = storage.read_entries(merged.find("en", "de").id)
    assert sorted(entries.split(b"\n")) == [b"a\tb", b"c\td", b"e\tf", b"x\ty"]
