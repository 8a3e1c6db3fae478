"""Folders of documents: who may have how many, and what is left of them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents.places import find_documents, read_machine, read_name, read_secret
from documents.storage import (
    NOBODY,
    Gone,
    Limits,
    Order,
    State,
    Storage,
    TooManyWaiting,
    clean_name,
)
from documents.translation import Translation
from tests.documents.conftest import LIMITS

KEY = "0123456789ab"


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
    ("limits", "is_own"), [(Limits(3, 9), False), (Limits(9, 3), True)]
)
def test_waiting_documents_are_bounded(storage, limits, is_own):
    for _ in range(3):
        storage.reserve(NOBODY, "somebody", limits)
    with pytest.raises(TooManyWaiting) as caught:
        storage.reserve(NOBODY, "somebody", limits)
    assert (caught.value.limit, caught.value.is_own) == (3, is_own)
    assert len(storage.list_unfinished()) == 3
    if is_own:
        storage.reserve(NOBODY, "another", limits)


def test_what_is_finished_makes_room(storage):
    limits = Limits(1, 1)
    place = storage.reserve(NOBODY, "somebody", limits)
    place.drop()
    storage.finish(storage.reserve(NOBODY, "somebody", limits).job)
    storage.reserve(NOBODY, "somebody", limits)


def test_documents_are_found_by_their_owners(add, storage):
    mine, others = add("one", owner=KEY), add("two", owner="ab0123456789")
    found = storage.find(KEY, mine.order.id)
    assert (found.order, found.folder) == (mine.order, mine.folder)
    for document_id in (others.order.id, "0" * 32, "..", "../x", ""):
        with pytest.raises(Gone):
            storage.find(KEY, document_id)
    with pytest.raises(Gone):
        storage.find("..", mine.order.id)


def test_documents_are_listed_in_order(add, storage):
    added = [add("one", owner=KEY, created_at=float(n)) for n in (3, 1, 2)]
    listed = [document.order.created_at for document in storage.list_all(KEY)]
    assert listed == sorted(document.order.created_at for document in added)
    assert storage.list_all("ab0123456789") == []


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
    assert storage.list_unfinished() == []


def test_a_torn_state_is_that_of_the_beginning(add):
    document = add("one")
    (document.folder / "state.json").write_bytes(b'{"sta')
    assert document.read_state() == State()


def test_a_document_is_swept_when_its_time_has_come(add, storage):
    document, other = add("one"), add("two")
    document.write_state(State(status="done", expires_at=100.0))
    assert storage.sweep(99.0) == []
    assert storage.sweep(101.0) == [document.order.id]
    assert [found.order for found in storage.list_all(NOBODY)] == [other.order]


def test_one_document_is_locked_by_one(add):
    document = add("one")
    with document.lock() as is_ours:
        assert is_ours
        with document.lock() as is_theirs:
            assert not is_theirs
    with document.lock() as is_ours:
        assert is_ours


def test_secrets_are_made_once_and_read_by_their_owner_only(run, tmp_path):
    found: list[str] = []
    readers = [
        threading.Thread(target=lambda: found.append(read_secret())) for _ in range(8)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(found[0]) == 64
    assert (run / "jobs" / "secret").stat().st_mode & 0o777 == 0o600
    assert read_machine() not in (found[0], read_name(tmp_path))


def test_documents_are_in_the_run_directory_unless_told(run):
    assert find_documents(None) == find_documents(Path("")) == run / "documents"
    assert find_documents(Path("/mnt/shared")) == Path("/mnt/shared")


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system with little room."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ("-t", "tmpfs", "-o", "size=256k", "tmpfs")
    subprocess.run(["mount", *options, folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_full_disk_is_told_and_leaves_room(small_disk, asking, stopping):
    storage = Storage(small_disk)
    texts = [f"A rather long text of the document, number {n}" for n in range(2000)]
    place = storage.reserve(NOBODY, "somebody", LIMITS)
    place.path.write_text("\n".join(texts) + "\n")
    order = Order(place.job.id, NOBODY, "somebody", "::1", "a.lines", "de", "en")
    document = place.accept(order)
    Translation(document, asking, stopping).run(60)
    error = document.read_state().error or {}
    assert (error["type"], error["status"]) == ("urn:babelgate:disk-full", 507)
    left = {path.name for path in document.folder.iterdir()}
    assert left == {"document.json", "state.json"}
    assert sum(p.stat().st_size for p in small_disk.rglob("*") if p.is_file()) < 4096
