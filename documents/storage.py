"""Documents on disk, one folder each. An entry in `unfinished` marks a document to translate. A
document is renamed into its place, so it is complete there even after a crash or power loss.

    incoming/<id>/                       an unfinished upload
    unfinished/<owner>~<caller>~<id>     empty; counted before an upload begins
    webhooks/<owner>~<caller>~<id>       empty; the document has ended, its webhook is pending
    sizes/<owner>~<caller>~<id>          as large as the space reserved for the document
    kept/<owner>/<id>/                   document.json, state.json, webhook.json, source, texts,
                                         journal, result
    aside/<digits>-<name>                unreadable folders
    trash/                               folders being deleted
"""

from __future__ import annotations

import heapq
import logging
import math
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from contract import durable
from contract.times import write_time
from contract.webhooks import Webhook

log = logging.getLogger(__name__)

#: The owner of all documents if keys are not in use: anyone with an id has access.
NOBODY = "open"
#: Seconds after which an unfinished upload counts as abandoned.
_UPLOAD_S = 3600.0
#: Seconds to keep other folders: uploads, unreadable documents, documents being deleted, and
#: an earlier version's notes on deletions.
_KEPT_S = {"incoming": _UPLOAD_S, "aside": 7 * 86_400, "trash": 0.0, "expiring": 0.0}
_ID = re.compile(r"[0-9a-f]{32}")
_OWNER = re.compile(rf"[0-9a-f]{{12}}|{NOBODY}")
#: The minimum size of a document: its folder and files occupy space even if empty.
_LEAST_BYTES = 64 << 10
#: The translation needs about as much space as the document.
_COPIES = 2
#: Seconds after which an entry without a document counts as left by a killed program.
_STRAY_S = 3600.0
_LONGEST_NAME = 200
#: The last second that `write_time` can write: documents may be kept longer.
_LAST_TIME = 253_402_300_799
#: The maximum number of pending webhooks, per caller and in total.
_WEBHOOKS_OF_ONE, _WEBHOOKS = 1_000, 10_000
_WEBHOOK = "webhook.json"
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)

Status: TypeAlias = Literal["queued", "translating", "done", "failed"]


class LimitReached(Exception):
    """The documents of one caller (`is_own`), or of all, have reached a limit."""

    def __init__(self, limit: int, *, is_own: bool) -> None:
        super().__init__(limit, is_own)
        self.limit = limit
        self.is_own = is_own


class NoRoom(LimitReached):
    """The documents have used up their disk space."""


class TooManyWaiting(LimitReached):
    """The number of unfinished documents has reached its limit."""


class Gone(Exception):
    """The document was deleted, never existed, or is unreadable."""


@dataclass(frozen=True)
class DocumentLimits:
    """The maximum number of unfinished documents, in total and per caller; the maximum bytes of
    documents, in total and per caller; the bytes of the disk to leave free."""

    waiting: int
    of_one: int
    bytes_of_all: int = sys.maxsize
    bytes_of_one: int = sys.maxsize
    reserve_bytes: int = 0


@dataclass(frozen=True)
class Order:
    """A client's order. `owner` is the id of the key, `password` DeepL's `document_key`."""

    id: str
    owner: str
    #: The key, or a hashed address; each caller has a separate share.
    caller: str
    #: The client's address, for its fair share of the models.
    address: str
    name: str
    tgt_lang: str
    src_lang: str | None = None
    glossary: str | None = None
    password: str = ""
    #: Unix seconds.
    created_at: float = 0.0

    @property
    def suffix(self) -> str:
        """The extension of the name, in lower case and with its dot."""
        return Path(self.name).suffix.lower()


@dataclass(frozen=True)
class State:
    """The progress of a document. `error` is a problem document."""

    status: Status = "queued"
    src_lang: str | None = None
    texts: int = 0
    texts_done: int = 0
    characters: int = 0
    #: Unix seconds.
    started_at: float | None = None
    expires_at: float | None = None
    error: Mapping[str, Any] | None = None
    media_type: str = "application/octet-stream"
    #: Messages for the owner.
    warnings: tuple[str, ...] = ()
    #: The number of programs that started on the document but ended before sending any text.
    attempts: int = 0

    @property
    def is_over(self) -> bool:
        return self.status in ("done", "failed")


#: Both ignore fields that a later version has added.
_ORDERS, _STATES = TypeAdapter(Order), TypeAdapter(State)
_HOOKS = TypeAdapter(Webhook)


class UnfinishedDocument(NamedTuple):
    """A document that waits for its translation or its webhook call."""

    owner: str
    caller: str
    id: str
    kind: str = "unfinished"


def disguise(address: str) -> str:
    """Return the hash that replaces an address in file names."""
    return sha256(address.encode()).hexdigest()[:12]


def clean_name(given: str) -> str:
    """Return a file name without folders and unprintable characters; it may be empty."""
    last = re.split(r"[/\\]", given)[-1]
    shown = "".join(char for char in last if char.isprintable()).strip()
    stem, dot, ending = shown.rpartition(".")
    return f"{stem[: _LONGEST_NAME - len(ending) - 1]}{dot}{ending}"[:_LONGEST_NAME]


def _list_names(folder: Path) -> list[str]:
    """List the names in a folder, or none if it does not exist. Raises OSError."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_age(path: Path, now: float) -> float:
    """Return the seconds since a path or a file in it was changed or moved, 0 if one is gone.
    Raises OSError."""
    try:
        return now - max(each.stat().st_ctime for each in (path, *path.glob("*")))
    except FileNotFoundError:
        return 0.0


def _measure(entry: os.DirEntry[str]) -> int:
    """Return a file's size, 0 if it is gone."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


class DocumentBudget:
    """The disk space of all documents. A `mark` is a document's owner, caller and id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes = folder / "sizes"

    def reserve(self, mark: Sequence[str], size: int, limits: DocumentLimits) -> None:
        """Reserve space for an upload of `size` bytes. Raises NoRoom and OSError; `settle` then
        releases the space."""
        self._sizes.mkdir(mode=0o700, exist_ok=True)
        self.set(mark, size)
        unfinished = {*_list_names(self._folder / "unfinished")}
        coming = sum(_measure(e) for e in self._list() if e.name in unfinished)
        if shutil.disk_usage(self._folder).free - coming < limits.reserve_bytes:
            raise NoRoom(limits.bytes_of_all, is_own=False)
        own, total = self._add_up(mark[1])
        if own > limits.bytes_of_one or total > limits.bytes_of_all:
            self._remove_strays()
            own, total = self._add_up(mark[1])
        if own > limits.bytes_of_one:
            raise NoRoom(limits.bytes_of_one, is_own=True)
        if total > limits.bytes_of_all:
            raise NoRoom(limits.bytes_of_all, is_own=False)

    def set(self, mark: Sequence[str], size: int) -> None:
        """Set the size of an upload. Raises OSError."""
        with self._find(mark).open("ab") as file:
            file.truncate(max(_LEAST_BYTES, _COPIES * size))

    def settle(self, mark: Sequence[str], kept: Path) -> None:
        """Set the size to that of a document's folder, or to nothing if that is gone. On a full
        disk the size stays unchanged."""
        with suppress(OSError):
            if kept.exists():
                self.set(mark, sum(map(_measure, os.scandir(kept))) // _COPIES)
            if not kept.exists():  # maybe since then
                self._find(mark).unlink(missing_ok=True)

    def _add_up(self, caller: str) -> tuple[int, int]:
        own = total = 0
        for entry in self._list():
            size = _measure(entry)
            total += size
            own += size if entry.name.split("~")[1] == caller else 0
        return own, total

    def _remove_strays(self) -> None:
        for entry in self._list():
            owner, _, document_id = entry.name.split("~")
            places = ("kept", owner, document_id), ("incoming", document_id)
            is_there = any(self._folder.joinpath(*place).exists() for place in places)
            with suppress(FileNotFoundError):
                if not is_there and time.time() - entry.stat().st_mtime > _STRAY_S:
                    os.unlink(entry)

    def _find(self, mark: Sequence[str]) -> Path:
        return self._sizes / "~".join(mark[:3])

    def _list(self) -> Iterator[os.DirEntry[str]]:
        found = os.scandir(self._sizes)
        return (entry for entry in found if entry.name.count("~") == len("~~"))


class DocumentFolder:
    """The folder of one document."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.folder = folder
        self.order = order
        self.state = folder / "state.json"
        #: The uploaded file.
        self.source = folder / f"source{order.suffix}"
        #: The texts to translate, which every attempt extracts again.
        self.texts = folder / "texts"
        #: The translations so far.
        self.journal = folder / "journal"
        #: The translated file, which exists once the state is `done`, and its unfinished copy.
        self.result = folder / f"result{order.suffix}"
        self.part = folder / f"part{order.suffix}"
        #: Deleted after the last attempt to call it.
        self.webhook = folder / _WEBHOOK

    def read_state(self) -> State:
        """Return the state; one torn by a power loss restarts from the journal. Raises Gone."""
        try:
            return _STATES.validate_json(self.state.read_bytes())
        except (FileNotFoundError, ValueError):
            self.check()
            return State()

    def write_state(self, state: State) -> None:
        """Replace the state; a final one survives a power loss. Raises Gone and OSError."""
        try:
            # An earlier version rejects fields that it does not know.
            unused = None if state.warnings else {"warnings"}
            content = _STATES.dump_json(state, exclude=unused)
            durable.write(self.state, content, is_synced=state.is_over)
        except FileNotFoundError as error:  # its folder is gone
            raise Gone(self.order.id) from error

    def read_webhook(self) -> Webhook:
        """Return the webhook. Raises Gone, also if it was deleted."""
        try:
            return _HOOKS.validate_json(self.webhook.read_bytes())
        except FileNotFoundError as error:
            raise Gone(self.order.id) from error

    def check(self) -> None:
        """Raise Gone if the document was deleted."""
        if not (self.folder / "document.json").exists():
            raise Gone(self.order.id)

    def clear(self) -> None:
        """Delete all files that can be made again, to free space for recording a failure."""
        for path in (self.texts, self.part, self.result):
            path.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Delete the files that a finished document no longer needs."""
        for path in (self.source, self.texts, self.journal):
            path.unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Yield whether the document could be locked. Locks of killed programs are released."""
        try:
            descriptor = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError as error:
            raise Gone(self.order.id) from error
        try:
            yield durable.try_lock(descriptor)
        finally:
            os.close(descriptor)


class Reservation:
    """A place for a document that is being uploaded, then accepted or dropped."""

    def __init__(self, storage: DocumentStorage, job: UnfinishedDocument) -> None:
        self.job = job
        self._storage = storage
        self._folder = storage.folder / "incoming" / job.id
        self._kept = storage.folder / "kept" / job.owner / job.id
        self._folder.mkdir(mode=0o700, parents=True)

    @property
    def path(self) -> Path:
        """The path to which the file is written."""
        return self._folder / "source"

    def accept(self, order: Order, webhook: Webhook | None = None) -> DocumentFolder:
        """Queue the document for translation and return it. Raises OSError."""
        self._storage.budget.set(self.job, self.path.stat().st_size)
        durable.rename(self.path, self._folder / f"source{order.suffix}")
        durable.write(self._folder / "document.json", _ORDERS.dump_json(order))
        if webhook:
            durable.write(self._folder / _WEBHOOK, _HOOKS.dump_json(webhook))
        self._kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.rename(self._folder, self._kept)
        return DocumentFolder(self._kept, order)

    def drop(self) -> None:
        """Delete the document, even if the last step of `accept` failed or is still to come."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):
            durable.rename(self._kept, self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._storage.finish(self.job)


class DocumentStorage:
    """All documents. Every call may block on the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.budget = DocumentBudget(folder)
        #: The skipped paths that have been logged.
        self._told: set[Path] = set()

    def reserve(
        self, owner: str, caller: str, limits: DocumentLimits, size: int = 0
    ) -> Reservation:
        """Reserve a place for at most `size` bytes. Raises LimitReached and OSError."""
        job = UnfinishedDocument(owner, caller, secrets.token_hex(16))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mark(job)
        try:
            jobs = self.list_jobs()
            own = sum(other.caller == caller for other in jobs)
            if own > limits.of_one:
                raise TooManyWaiting(limits.of_one, is_own=True)
            if len(jobs) > limits.waiting:
                raise TooManyWaiting(limits.waiting, is_own=False)
            self.budget.reserve(job, size, limits)
            return Reservation(self, job)
        except BaseException:
            self.finish(job)
            raise

    def find(self, owner: str, document_id: str) -> DocumentFolder:
        """Return a document. Raises Gone."""
        if not (_ID.fullmatch(document_id) and _OWNER.fullmatch(owner)):
            raise Gone(document_id)
        return read_document(self._find(owner, document_id))

    def list_jobs(self, kind: str = "unfinished") -> list[UnfinishedDocument]:
        """List the documents that are being uploaded, waiting or being translated. With
        `webhooks`, list the finished ones whose webhook is pending."""
        names = (name.split("~") for name in _list_names(self.folder / kind))
        jobs = (UnfinishedDocument(*parts) for parts in names if len(parts) == 3)
        return [job._replace(kind=kind) for job in jobs]

    def sort_by_age(
        self, jobs: Iterable[UnfinishedDocument]
    ) -> list[UnfinishedDocument]:
        """Sort jobs by waiting time, the longest first."""
        now = time.time()
        return sorted(jobs, key=lambda job: -_read_age(self._find_mark(job), now))

    def is_complete(self, job: UnfinishedDocument) -> bool:
        """Whether the upload has ended."""
        return os.path.exists(self._find(job.owner, job.id) / "document.json")

    def finish(self, job: UnfinishedDocument) -> None:
        """Unmark a finished document, mark its webhook if it has one, and update its size.
        Webhooks beyond the limits wait until `walk` finds them."""
        webhook = job._replace(kind="webhooks")
        if not (self._find(job.owner, job.id) / _WEBHOOK).exists():
            self._find_mark(webhook).unlink(missing_ok=True)
        elif not self._find_mark(webhook).exists():
            jobs = self.list_jobs(webhook.kind)
            own = sum(other.caller == job.caller for other in jobs)
            if own < _WEBHOOKS_OF_ONE and len(jobs) < _WEBHOOKS:
                self._mark(webhook)
        job = job._replace(kind="unfinished")
        self._find_mark(job).unlink(missing_ok=True)
        self.budget.settle(job, self._find(job.owner, job.id))

    def _find_mark(self, job: UnfinishedDocument) -> Path:
        return self.folder / job.kind / "~".join(job[:3])

    def _mark(self, job: UnfinishedDocument) -> None:
        mark = self._find_mark(job)
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch()

    def delete(self, document: DocumentFolder) -> None:
        """Delete a document, even while it is being translated."""
        order = document.order
        trash = self.folder / "trash" / f"{order.id}-{secrets.token_hex(4)}"
        trash.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            durable.rename(document.folder, trash)
        self.finish(UnfinishedDocument(order.owner, order.caller, order.id))
        shutil.rmtree(trash, ignore_errors=True)

    def put_aside(self, *names: str) -> None:
        """Move an unreadable folder of a document or owner out of the way, if it exists."""
        with self._guard(path := self._find(*names)):
            aside = self.folder / "aside"
            aside.mkdir(mode=0o700, exist_ok=True)
            durable.rename(path, aside / f"{secrets.token_hex(4)}-{path.name[:60]}")
            log.warning("%.8s… cannot be read: moved to aside/", path.name)

    @contextmanager
    def _guard(self, path: Path) -> Iterator[None]:
        """Log an OSError of one entry, so that the others are still processed."""
        try:
            yield
        except FileNotFoundError:
            pass  # another process has moved or deleted it
        except OSError as error:
            if path not in self._told:
                self._told.add(path)
                log.error("%.8s… was skipped: %s", path.name, type(error).__name__)

    def _find(self, *names: str) -> Path:
        return self.folder.joinpath("kept", *names)

    def sweep(self, now: float) -> None:
        """Delete the leftovers of killed programs."""
        old = (
            path
            for folder, kept_s in _KEPT_S.items()
            for path in (self.folder / folder).glob("*")
            if _read_age(path, now) > kept_s
        )
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):  # a file or a link
                path.unlink()
        for job in self.list_jobs():
            with self._guard(mark := self._find_mark(job)):
                is_old = _read_age(mark, now) > _UPLOAD_S
                is_arriving = is_old and (self.folder / "incoming" / job.id).exists()
                if is_old and not (is_arriving or self.is_complete(job)):
                    self.finish(job)

    def walk(self, now: float) -> Iterator[str | None]:
        """Review all documents, one per step. Delete those that are due and yield their ids,
        restore lost marks, and put unreadable folders aside."""
        kept = self.folder / "kept"
        for owner in _list_names(kept):
            if not (_OWNER.fullmatch(owner) and (kept / owner).is_dir()):
                self.put_aside(owner)
            names: list[str] = []
            with self._guard(kept / owner):
                names = _list_names(kept / owner)
            for name in names:
                yield name if self._review_document(owner, name, now) else None

    def _review_document(self, owner: str, name: str, now: float) -> bool:
        """Return whether the document was due, and therefore deleted."""
        with self._guard(self._find(owner, name)):
            try:
                document = self.find(owner, name)
                job = UnfinishedDocument(owner, document.order.caller, name)
                is_marked = self._find_mark(job).exists()  # `finish` removes it last
                state = document.read_state()
                if state.is_over and (state.expires_at or math.inf) < now:
                    self.delete(document)
                    return True
                if not (is_marked or state.is_over):
                    self._mark(job)
                elif not is_marked and document.webhook.exists():
                    self.finish(job)
            except Gone:
                self.put_aside(owner, name)
        return False


def describe(order: Order, state: State) -> dict[str, Any]:
    """The progress of a document, for its owner and its webhook."""
    expires_at = state.expires_at
    status = {
        "id": order.id,
        "name": order.name,
        "status": state.status,
        "src_lang": order.src_lang or state.src_lang,
        "tgt_lang": order.tgt_lang,
        "texts": state.texts,
        "texts_done": state.texts_done,
        "characters": state.characters,
        "created_at": write_time(round(order.created_at)),
        "expires_at": expires_at and write_time(round(min(expires_at, _LAST_TIME))),
        "error": dict(state.error) if state.error else None,
    }
    return status | ({"warnings": [*state.warnings]} if state.warnings else {})


def read_document(folder: Path) -> DocumentFolder:
    """The document in a folder. Raises Gone."""
    try:
        order = _ORDERS.validate_json((folder / "document.json").read_bytes())
    except (ValueError, *_MISSING) as error:
        raise Gone(folder.name) from error
    return DocumentFolder(folder, order)


def read_page(
    storage: DocumentStorage, owner: str, after: str, count: int
) -> tuple[list[tuple[DocumentFolder, State]], str | None]:
    """Return the next `count` of an owner's documents, oldest first, and the `after` of the
    next page, or None after the last one."""
    folder = storage.folder / "kept" / owner
    places = heapq.nsmallest(count + 1, (p for p in _list_places(folder) if p > after))
    found = []
    for place in places[:count]:
        with suppress(Gone):
            document = storage.find(owner, place.rpartition("-")[2])
            found.append((document, document.read_state()))
    return found, places[count - 1] if len(places) > count else None


def _list_places(folder: Path) -> Iterator[str]:
    for order in folder.glob("*/document.json"):
        with suppress(FileNotFoundError):
            yield f"{order.stat().st_mtime_ns:016x}-{order.parent.name}"
