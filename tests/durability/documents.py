"""Documents of two owners, from the upload to the deletion."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from contract import durable
from contract.webhooks import Webhook
from documents import worker
from documents.gateway import ConcurrencyLimit, Gateway
from documents.pieces import read_journal
from documents.storage import (
    DocumentFolder,
    DocumentLimits,
    DocumentStorage,
    Gone,
    Order,
)
from documents.translation import DocumentTranslation
from tests.documents.conftest import LINES, take_step
from tests.durability.running import Diary

#: A document's state is not synced before its end, and deleted files are not read again.
LOOSE = (".state.json", "/trash/", "/aside/")
ANNA, BEN = "a" * 12, "b" * 12
LIMITS = DocumentLimits(waiting=10, of_one=5)
KEPT_S, DAY_S = 60.0, 86_400
#: More texts than one request may have.
TEXTS = {owner: [f"{owner} {number}" for number in range(70)] for owner in (ANNA, BEN)}

patch.object(worker, "find_format", lambda name: LINES).start()


class Billing:
    """A gateway that records the texts it has translated."""

    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def connect(self, *_: Any) -> AbstractContextManager[Billing]:
        return nullcontext(self)

    @property
    def pace(self) -> ConcurrencyLimit:
        return ConcurrencyLimit()

    def translate(self, texts: Sequence[str], *_: Any) -> list[str]:
        for text in texts:
            self._diary.tell("billed", text)
        return [text.upper() for text in texts]


def upload(storage: DocumentStorage, owner: str, diary: Diary) -> None:
    """Upload a document as the gateway does."""
    place = storage.reserve(owner, owner, LIMITS, 100)
    try:
        with closing(durable.AppendLog(place.path, mode=0o600)) as log:
            log.append("".join(f"{text}\n" for text in TEXTS[owner]).encode())
            log.sync()
        parts = (place.job.id, owner, owner, "10.1.2.3")
        order = Order(*parts, name="a.lines", tgt_lang="de", src_lang="en")
        webhook = Webhook("https://example.org", "secret")
        diary.tell("id", place.accept(order, webhook).order.id)
    except BaseException:
        place.drop()
        raise


def work(storage: DocumentStorage, diary: Diary) -> None:
    """Do the jobs; failed ones are started again later."""
    for job in storage.list_jobs():
        if storage.is_complete(job):
            with suppress(Gone):
                document = storage.find(job.owner, job.id)
                gateway = cast(Gateway, Billing(diary))
                parts = document, gateway, take_step, threading.Event()
                DocumentTranslation(*parts).run(KEPT_S)
            storage.finish(job)
    for job in storage.list_jobs("webhooks"):
        if not storage.is_complete(job):
            storage.finish(job)


def list_documents(storage: DocumentStorage, owner: str) -> list[DocumentFolder]:
    found: list[DocumentFolder] = []
    for path in (storage.folder / "kept" / owner).glob("*"):
        with suppress(Gone):
            found.append(storage.find(owner, path.name))
    return found


def interfere(folder: Path, diary: Diary) -> None:
    """Delete all documents of an owner."""
    storage = DocumentStorage(folder)
    for document in list_documents(storage, ANNA):
        diary.tell("asked", "delete")
        storage.delete(document)


def act(folder: Path, diary: Diary) -> None:
    storage = DocumentStorage(folder)
    for owner in TEXTS:
        step = partial(upload, storage, owner, diary)
        diary.attempt(f"upload {owner}", step, OSError)
    diary.attempt("work", lambda: work(storage, diary), OSError)
    for document in list_documents(storage, ANNA):
        diary.attempt("delete", partial(storage.delete, document), OSError)


def check(folder: Path, diary: Diary) -> None:
    storage, now = DocumentStorage(folder), time.time()
    list(storage.walk(now))
    storage.sweep(now)
    kept = {
        piece.text.lower()
        for owner in TEXTS
        for document in list_documents(storage, owner)
        if document.journal.exists()
        for piece in read_journal(document.journal)
    }
    before = len(diary.find("billed"))
    work(storage, diary)
    assert not kept.intersection(diary.find("billed")[before:])
    for owner in TEXTS:
        check_owner(storage, owner, diary)
        for document in list_documents(storage, owner):
            storage.delete(document)
    storage.sweep(now + 8 * DAY_S)
    left = [str(path) for path in folder.rglob("*") if path.is_file()]
    # A stray size file is removed when an upload finds no space.
    assert [name for name in left if "/sizes/" not in name] == [], left
    assert storage.list_jobs() == storage.list_jobs("webhooks") == []


def check_owner(storage: DocumentStorage, owner: str, diary: Diary) -> None:
    found = list_documents(storage, owner)
    is_deleted = owner == ANNA and "delete" in diary.find("asked")
    assert len(found) <= (f"upload {owner}" not in diary.find("refused"))
    assert len(found) >= (f"upload {owner}" in diary.find("done")) - is_deleted
    assert not (found and owner == ANNA and "delete" in diary.find("done"))
    for document in found:
        state = document.read_state()
        assert state.is_over
        assert document.order.id in {job.id for job in storage.list_jobs("webhooks")}
        if state.status == "done":
            lines = document.result.read_text().splitlines()[1:]
            assert lines == [text.upper() for text in TEXTS[owner]]
        else:
            assert "work" in diary.find("done")
        for other in TEXTS.keys() - {owner}:
            with pytest.raises(Gone):
                storage.find(other, document.order.id)
