"""Folders of documents: limits per owner and in total, deletion, and damaged entries."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from contract import durable
from contract.documents import find_documents, read_secret
from documents.storage import (
    _KEPT_S,
    NOBODY,
    DocumentLimits,
    DocumentStorage,
    Gone,
    NoRoom,
    Order,
    State,
    TooManyWaiting,
    clean_name,
    read_page,
)
from tests.documents.conftest import list_orders
from tests.e2e.real_stack import wait_until

KEY = "0123456789ab"
DAY_S = 86_400
MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.txt", "a.txt"),
        ("/etc/a.txt", "a.txt"),
        ("C:\\folder\\a.txt", "a.txt"),
        ("..", ".."),
        ("", ""),
        ("\n\x07\u202e", ""),
        (" a\tb.txt ", "ab.txt"),
        ("ü" * 300 + ".docx", "ü" * 195 + ".docx"),
        ("x" * 300, "x" * 200),
    ],
)
def test_names_are_those_of_files(given, name):
    assert clean_name(given) == name


@pytest.mark.parametrize(
    ("limits", "is_own"), [(DocumentLimits(3, 9), False), (DocumentLimits(9, 3), True)]
)
def test_waiting_documents_are_bounded(storage, limits, is_own):
    places = [storage.reserve(NOBODY, "somebody", limits) for _ in range(3)]
    assert storage.folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(TooManyWaiting) as caught:
        storage.reserve(NOBODY, "somebody", limits)
    assert (caught.value.limit, caught.value.is_own) == (3, is_own)
    assert len(storage.list_jobs()) == 3
    if is_own:
        storage.finish(storage.reserve(NOBODY, "another", limits).job)
    places[0].drop()
    storage.reserve(NOBODY, "somebody", limits)


@pytest.mark.parametrize(
    ("limits", "is_own", "size"),
    [
        (DocumentLimits(99, 99, bytes_of_all=4 * MIB), False, MIB),
        (DocumentLimits(99, 99, bytes_of_one=4 * MIB), True, MIB),
        (DocumentLimits(99, 99, bytes_of_one=4 * MIB), True, 1),
    ],
    ids=["of all", "of one", "of many small ones"],
)
def test_the_bytes_of_documents_are_bounded(storage, limits, is_own, size):
    # A small document counts as 64 KiB, any other as twice its size.
    count = 2 if size == MIB else 64
    places = [storage.reserve(KEY, KEY, limits, size) for _ in range(count)]
    with pytest.raises(NoRoom) as refused:
        storage.reserve(KEY, KEY, limits, 1)
    assert (refused.value.limit, refused.value.is_own) == (4 * MIB, is_own)
    assert len(storage.list_jobs()) == count
    if is_own:
        storage.reserve(NOBODY, "another", limits, size)
    places[0].drop()
    storage.reserve(KEY, KEY, limits, size)


def test_a_document_counts_what_it_takes(storage):
    """It counts twice its size until it is done, then its folder's size until it is deleted."""
    limits = DocumentLimits(9, 9, bytes_of_one=4 * MIB)
    place = storage.reserve(KEY, KEY, limits, MIB)
    place.path.write_bytes(bytes(MIB // 2))
    document = place.accept(Order(place.job.id, KEY, KEY, "", "a.txt", "ko"))
    assert measure(storage) == MIB
    document.source.unlink()
    document.result.write_bytes(bytes(3 * MIB))
    storage.finish(place.job)
    assert 3 * MIB < measure(storage) < 4 * MIB
    with pytest.raises(NoRoom):
        storage.reserve(KEY, KEY, limits, MIB)
    storage.delete(document)
    assert measure(storage) == 0


def test_a_document_that_is_accepted_while_it_is_dropped_is_gone(storage, monkeypatch):
    place = storage.reserve(KEY, KEY, DocumentLimits(9, 9))
    place.path.touch()

    def accept(*_: Path) -> None:
        monkeypatch.undo()
        place.accept(Order(place.job.id, KEY, KEY, "", "a.txt", "ko"))

    monkeypatch.setattr(durable, "rename", accept)
    place.drop()
    with pytest.raises(Gone):
        storage.find(KEY, place.job.id)


def test_a_document_that_is_deleted_as_it_ends_counts_nothing(
    add, storage, monkeypatch
):
    document = add("one", owner=KEY)
    (job,) = storage.list_jobs()

    def measure_late(_: os.DirEntry[str]) -> int:
        storage.delete(document)
        return 1

    monkeypatch.setattr("documents.storage._measure", measure_late)
    storage.finish(job)
    assert list((storage.folder / "sizes").iterdir()) == []


def test_what_a_killed_program_has_left_makes_room(storage):
    limits = DocumentLimits(9, 9, bytes_of_one=2 * MIB)
    lost = storage.reserve(KEY, KEY, limits, MIB)
    shutil.rmtree(lost.path.parent)
    with pytest.raises(NoRoom):
        storage.reserve(KEY, KEY, limits, 1)
    for entry in (storage.folder / "sizes").iterdir():
        os.utime(entry, (0, 0))
    storage.reserve(KEY, KEY, limits, MIB)


def test_uploads_that_arrive_together_leave_a_part_of_the_disk_free(storage):
    free = shutil.disk_usage(storage.folder.parent).free
    limits = DocumentLimits(9, 9, reserve_bytes=free // 2)
    storage.reserve(KEY, KEY, limits, free // 6)
    with pytest.raises(NoRoom):
        storage.reserve(KEY, KEY, limits, free // 6)


def test_an_owners_documents_have_pages_from_the_oldest_on(add, storage):
    ids = [add(f"a{number}", owner=KEY).order.id for number in range(5)]
    kept = storage.folder / "kept" / KEY
    for number, document_id in enumerate(ids):
        os.utime(kept / document_id / "document.json", (0, number))
    (kept / "stray").mkdir()
    found: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        page, after = read_page(storage, KEY, after, 2)
        found.append([document.order.id for document, _ in page])
        for document, _ in page:  # deletions do not disturb the paging
            storage.delete(document)
    assert found == [ids[:2], ids[2:4], ids[4:]]
    assert read_page(storage, "ab0123456789", "", 9) == ([], None)


def measure(storage: DocumentStorage) -> int:
    return sum(entry.stat().st_size for entry in (storage.folder / "sizes").iterdir())


def test_documents_are_found_by_their_owners(add, storage):
    """Other users of the machine find none."""
    mine, others = add("one", owner=KEY), add("two", owner="ab0123456789")
    found = storage.find(KEY, mine.order.id)
    assert (found.order, found.folder) == (mine.order, mine.folder)
    for folder in (mine.folder, mine.folder.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    theirs = f"../{others.order.owner}/{others.order.id}"
    for document_id in (others.order.id, theirs, "0" * 32, "..", ""):
        with pytest.raises(Gone):
            storage.find(KEY, document_id)
    with pytest.raises(Gone):
        storage.find("..", mine.order.id)


def test_a_deleted_document_is_gone_for_all(add, storage):
    document = add("one")
    storage.delete(document)
    storage.delete(document)
    for ask in (document.read_state, document.check):
        with pytest.raises(Gone):
            ask()
    with pytest.raises(Gone):
        document.write_state(State())
    with pytest.raises(Gone), document.lock():
        pass
    assert storage.list_jobs() == []


def test_a_torn_state_is_that_of_the_beginning(add):
    document = add("one")
    (document.folder / "state.json").write_bytes(b'{"sta')
    assert document.read_state() == State()


def test_fields_of_a_later_version_are_left_out(add, storage):
    document = add("one")
    for name, written in (("document", document.order), ("state", State(texts=3))):
        content = json.dumps({**asdict(written), "later": [1]})
        (document.folder / f"{name}.json").write_text(content)
    found = storage.find(NOBODY, document.order.id)
    assert (found.order, found.read_state()) == (document.order, State(texts=3))


def damage(content: str) -> Callable[[Path], int]:
    return lambda path: path.write_text(content)


@pytest.mark.parametrize(
    "spoil",
    [
        *map(damage, ("", '{"id": "', "[]", "{}")),
        lambda path: (path.unlink(), path.mkdir()),
        Path.unlink,
    ],
)
def test_a_document_that_nobody_can_read_is_put_aside_once(add, storage, caplog, spoil):
    bad, good = add("one"), add("two")
    spoil(bad.folder / "document.json")
    with pytest.raises(Gone):
        storage.find(NOBODY, bad.order.id)
    assert list_orders(storage, NOBODY) == [good.order]
    for _ in range(2):
        assert not any(storage.walk(time.time()))
        storage.sweep(time.time())
    (aside,) = (storage.folder / "aside").iterdir()
    assert (aside / "source.lines").exists()
    assert not bad.folder.exists()
    assert len(caplog.records) == 1
    storage.sweep(time.time() + 8 * DAY_S)
    assert list((storage.folder / "aside").iterdir()) == []


def test_an_upload_that_takes_hours_is_abandoned_once_it_stands_still(
    storage, monkeypatch
):
    monkeypatch.setattr("documents.storage._UPLOAD_S", -1.0)
    place = storage.reserve(KEY, KEY, DocumentLimits(9, 9))
    begun_at = os.stat(place.path.parent).st_ctime
    wait_until(lambda: place.path.write_bytes(b"more") and time.time() > begun_at + 0.1)
    monkeypatch.setitem(_KEPT_S, "incoming", 0.1)
    storage.sweep(begun_at + 0.11)
    assert (place.path.exists(), len(storage.list_jobs())) == (True, 1)
    storage.sweep(time.time() + 1)
    assert (place.path.exists(), storage.list_jobs()) == (False, [])


def test_strangers_among_documents_harm_nobody(add, storage):
    document = add("one")
    document.write_state(State(status="done", expires_at=100.0))
    kept = storage.folder / "kept"
    (kept / "a file").touch()
    (kept / "lost+found").mkdir()
    (kept / ("字" * 85)).mkdir()  # 255 bytes
    (kept / NOBODY / "a file").touch()
    (kept / NOBODY / "a folder").mkdir()
    for name in ("incoming", "trash", "unfinished"):
        (storage.folder / name).mkdir(exist_ok=True)
        (storage.folder / name / "a file").touch()
    (storage.folder / "unfinished" / "a~b~c").mkdir()
    assert document.order.id in [*storage.walk(101.0)]
    assert {path.name for path in kept.iterdir()} == {NOBODY}
    storage.sweep(time.time() + DAY_S)
    assert not any((storage.folder / "incoming").iterdir())


def test_what_may_not_be_moved_is_told_once(add, storage, caplog, monkeypatch):
    bad, good = add("one"), add("two")
    (bad.folder / "document.json").write_text("")
    good.write_state(State(status="done", expires_at=100.0))
    rename = durable.rename

    def refuse(path: Path, target: Path) -> None:
        if path == bad.folder:
            raise PermissionError
        rename(path, target)

    monkeypatch.setattr(durable, "rename", refuse)
    deleted = [each for _ in range(3) for each in storage.walk(101.0) if each]
    assert deleted == [good.order.id]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_walk_gives_a_document_the_mark_that_it_has_lost(add, storage):
    document = add("one")
    shutil.rmtree(storage.folder / "unfinished")
    assert not any(storage.walk(time.time()))
    assert [job.id for job in storage.list_jobs()] == [document.order.id]


@pytest.mark.parametrize(
    ("state", "is_due"),
    [
        (State(status="done", expires_at=200.0), False),
        (State(status="done"), False),
        (State(status="translating", expires_at=100.0), False),
        (State(status="failed", expires_at=100.0), True),
    ],
)
def test_a_document_that_is_over_is_deleted_when_it_is_due(add, storage, state, is_due):
    document = add("one")
    document.write_state(state)
    assert any(storage.walk(101.0)) is is_due
    assert document.folder.exists() is not is_due


def test_secrets_are_made_once_and_read_by_their_owner_only(run):
    assert read_secret() == read_secret()
    assert len(read_secret()) == 64
    assert (run / "jobs" / "secret").stat().st_mode & 0o777 == 0o600


def test_documents_are_in_the_run_directory_unless_told(run):
    assert find_documents(None) == find_documents(Path("")) == run / "documents"
    assert find_documents(Path("/mnt/shared")) == Path("/mnt/shared")
