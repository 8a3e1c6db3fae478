"""Documents on disk: a folder each. A document that has a name in `unfinished` is to be
translated; what is renamed into its place is whole, however the machine ends.

    incoming/<id>/                       an upload that has not ended
    unfinished/<owner>~<caller>~<id>     empty; counted before an upload begins
    kept/<owner>/<id>/                   document.json, state.json, source, journal, result
    trash/                               what is being deleted
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

#: The owner of documents where there are no keys: whoever knows an id.
NOBODY = "open"
#: An upload that has not ended after so long has been given up, in seconds.
_UPLOAD_S = 3600.0
_ID = re.compile(r"[0-9a-f]{32}")
_OWNER = re.compile(rf"[0-9a-f]{{12}}|{NOBODY}")
_LONGEST_NAME = 200

Status: TypeAlias = Literal["queued", "translating", "done", "failed"]


class TooManyWaiting(Exception):
    """There are as many unfinished documents as there may be."""

    def __init__(self, limit: int, *, is_own: bool) -> None:
        super().__init__(limit, is_own)
        self.limit = limit
        self.is_own = is_own


class Gone(Exception):
    """The document has been deleted, or there never was one."""


@dataclass(frozen=True)
class Limits:
    """The most unfinished documents, and the most of one caller."""

    waiting: int
    of_one: int


@dataclass(frozen=True)
class Order:
    """What a client wants. The key's id is the owner; `password` is DeepL's `document_key`."""

    id: str
    owner: str
    #: The key, or an address in disguise: each has a share of its own.
    caller: str
    #: The client's address, which has its fair share of the models.
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
        """The ending of the name, in lower case and with its dot."""
        return Path(self.name).suffix.lower()


@dataclass(frozen=True)
class State:
    """How far a document is. `error` is a problem document."""

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
    #: How often a program has begun and ended before it had sent anything.
    attempts: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ("done", "failed")


class Job(NamedTuple):
    """An unfinished document."""

    owner: str
    caller: str
    id: str

    @property
    def mark(self) -> str:
        """Its name in `unfinished`."""
        return "~".join(self)


def disguise(address: str) -> str:
    """What stands for an address in names of files."""
    return sha256(address.encode()).hexdigest()[:12]


def clean_name(given: str) -> str:
    """A file's name without folders and what cannot be shown; it may be empty."""
    last = re.split(r"[/\\]", given)[-1]
    shown = "".join(char for char in last if char.isprintable()).strip()
    stem, dot, ending = shown.rpartition(".")
    return f"{stem[: _LONGEST_NAME - len(ending) - 1]}{dot}{ending}"[:_LONGEST_NAME]


class Document:
    """The folder of one document."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.folder = folder
        self.order = order

    @property
    def source(self) -> Path:
        """The file that was uploaded."""
        return self.folder / f"source{self.order.suffix}"

    @property
    def journal(self) -> Path:
        """The translations so far."""
        return self.folder / "journal"

    @property
    def result(self) -> Path:
        """The translated file. It is there when the state says so."""
        return self.folder / f"result{self.order.suffix}"

    @property
    def part(self) -> Path:
        """The translated file while it is written."""
        return self.folder / f"part{self.order.suffix}"

    def read_state(self) -> State:
        """Raises Gone. After a power cut the last one may be missing or torn: then the
        document begins again, behind what its journal has."""
        try:
            return State(**json.loads((self.folder / "state.json").read_bytes()))
        except (FileNotFoundError, ValueError):
            self.check()
            return State()

    def write_state(self, state: State) -> None:
        """Replaces the last one; the end survives a power cut. Raises Gone, and OSError."""
        path = self.folder / "state.json"
        _write_json(path, asdict(state), is_synced=state.is_over)

    def check(self) -> None:
        """Raises Gone."""
        if not (self.folder / "document.json").exists():
            raise Gone(self.order.id)

    def sync(self) -> None:
        """Returns when renamed files are on the disk under their names."""
        _sync_folder(self.folder)

    def clear(self) -> None:
        """Removes all content; order and state stay."""
        for path in (self.source, self.journal, self.part, self.result):
            path.unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Whether nobody else translates it. The system lets go of a killed program's locks."""
        try:
            descriptor = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError as error:
            raise Gone(self.order.id) from error
        try:
            yield _try_lock(descriptor)
        finally:
            os.close(descriptor)


class Reservation:
    """A place for a document that is being uploaded. It is accepted, or dropped."""

    def __init__(self, storage: Storage, job: Job) -> None:
        self.job = job
        self._storage = storage
        self._folder = storage.folder / "incoming" / job.id
        self._folder.mkdir(parents=True)

    @property
    def path(self) -> Path:
        """Where the file is to be written."""
        return self._folder / "source"

    def accept(self, order: Order) -> Document:
        """The document, which from now on will be translated. Raises OSError."""
        self.path.rename(self._folder / f"source{order.suffix}")
        _write_json(self._folder / "document.json", asdict(order))
        _sync_folder(self._folder)
        folder = self._storage.folder / "kept" / order.owner / order.id
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._folder.rename(folder)
        _sync_folder(folder.parent)
        return Document(folder, order)

    def drop(self) -> None:
        """Leaves nothing behind."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._storage.finish(self.job)


class Storage:
    """All documents. Every call may block for the time that the disk takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reserve(self, owner: str, caller: str, limits: Limits) -> Reservation:
        """A place for one more document. Raises TooManyWaiting, and OSError."""
        job = Job(owner, caller, secrets.token_hex(16))
        unfinished = self.folder / "unfinished"
        unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
        (unfinished / job.mark).touch(exist_ok=False)
        try:
            jobs = self.list_unfinished()
            own = sum(other.caller == caller for other in jobs)
            if own > limits.of_one:
                raise TooManyWaiting(limits.of_one, is_own=True)
            if len(jobs) > limits.waiting:
                raise TooManyWaiting(limits.waiting, is_own=False)
            return Reservation(self, job)
        except BaseException:
            self.finish(job)
            raise

    def find(self, owner: str, document_id: str) -> Document:
        """Raises Gone."""
        folder = self.folder / "kept" / owner / document_id
        try:
            if not (_ID.fullmatch(document_id) and _OWNER.fullmatch(owner)):
                raise Gone(document_id)
            order = json.loads((folder / "document.json").read_bytes())
        except FileNotFoundError as error:
            raise Gone(document_id) from error
        return Document(folder, Order(**order))

    def list_all(self, owner: str) -> list[Document]:
        """An owner's documents, from the oldest on."""
        found = []
        for name in _list_names(self.folder / "kept" / owner):
            with suppress(Gone):
                found.append(self.find(owner, name))
        return sorted(found, key=lambda document: document.order.created_at)

    def list_unfinished(self) -> list[Job]:
        """All that wait or are being translated, and those that are being uploaded."""
        names = _list_names(self.folder / "unfinished")
        return [Job(*name.split("~")) for name in names if name.count("~") == 2]

    def is_complete(self, job: Job) -> bool:
        """Whether its upload has ended."""
        kept = self.folder / "kept" / job.owner / job.id
        return (kept / "document.json").exists()

    def finish(self, job: Job) -> None:
        """Says that there is nothing more to do."""
        (self.folder / "unfinished" / job.mark).unlink(missing_ok=True)

    def delete(self, document: Document) -> None:
        """Deletes a document, also one that is being translated."""
        order = document.order
        trash = self.folder / "trash" / f"{order.id}-{secrets.token_hex(4)}"
        trash.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            document.folder.rename(trash)
        self.finish(Job(order.owner, order.caller, order.id))
        shutil.rmtree(trash, ignore_errors=True)

    def sweep(self, now: float) -> list[str]:
        """Deletes documents whose time has come, and what killed programs have left. Returns
        the ids of deleted documents."""
        expired = list(self._list_expired(now))
        for document in expired:
            self.delete(document)
        for path in [*self._list_given_up(now), *(self.folder / "trash").glob("*")]:
            shutil.rmtree(path, ignore_errors=True)
        for job in self.list_unfinished():
            mark = self.folder / "unfinished" / job.mark
            if not self.is_complete(job) and _read_age(mark, now) > _UPLOAD_S:
                self.finish(job)
        return [document.order.id for document in expired]

    def _list_expired(self, now: float) -> Iterator[Document]:
        for owner in _list_names(self.folder / "kept"):
            for document in self.list_all(owner):
                with suppress(Gone):
                    expires_at = document.read_state().expires_at
                    yield from [document] if expires_at and expires_at < now else []

    def _list_given_up(self, now: float) -> Iterator[Path]:
        for path in (self.folder / "incoming").glob("*"):
            if _read_age(path, now) > _UPLOAD_S:
                yield path


def fail(state: State, error: Mapping[str, Any], expires_at: float) -> State:
    """The state of a document that cannot be translated."""
    return replace(state, status="failed", error=dict(error), expires_at=expires_at)


def _list_names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _read_age(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _write_json(
    path: Path, content: Mapping[str, Any], *, is_synced: bool = True
) -> None:
    """Replaces a file. If it `is_synced`, a power cut leaves the old one or the new one."""
    part = path.with_name(f".{path.name}")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        part.replace(path)
    except FileNotFoundError as error:  # its folder is gone
        raise Gone(path.parent.name) from error
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
