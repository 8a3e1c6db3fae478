"""An object store: S3, or one that obstore also knows. What is there is whole, because each
object is put at once.
"""

from __future__ import annotations

import html
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BufferedRandom
from pathlib import PurePosixPath
from tempfile import TemporaryFile
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import uuid4

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from clients.errors import OutputError
from ray_backend.bulk.storage import KEPT

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
#: Attempts after the first one: at the beginning, and in a run that has got something done.
_RETRIES_FIRST, _RETRIES = 2, 10
_RETRY_FOR = timedelta(minutes=1)
_LIMIT = timedelta(minutes=1)
#: What one request reads. Larger objects are put in parts, of which there may be 10,000.
_READ_BYTES, _PART_BYTES, _MOST_PARTS = 8 << 20, 8 << 20, 8192
_PARTS_AT_ONCE = 4
#: S3 copies no larger objects by one request.
_MOST_COPIED_BYTES = 5 << 30
_REQUESTS_AT_ONCE = 16
_STAGED = f"{KEPT}/staged"
_LOCK = f"{KEPT}.lock"
#: How often a run renews its lock, and how long another one looks whether it does.
_RENEWED_S, _PATIENCE_S = 2.0, 7.0
#: What the store says, and who it is, in an error.
_SAID = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_ASKED = re.compile(r"Error performing \w+ (\w+://[^/\s]+)")
_KIND = re.compile(r"^(Generic \w+ error|Server returned non-2xx status code): ")


def open_bucket(place: str) -> Bucket | None:
    """The place if it is a URL. Raises OutputError, soon, if that is not an object store's, or
    nothing can be listed there."""
    scheme, colon, rest = place.partition("://")
    if not colon:
        return None
    if scheme not in SCHEMES or not rest.strip("/"):
        raise OutputError(
            f"{place}: expected a folder, or a URL such as s3://bucket/folder that begins "
            f"with {', '.join(SCHEMES)}"
        )
    bucket = Bucket(place.rstrip("/"))
    with bucket.explaining():
        next(iter(_connect(bucket.url, _RETRIES_FIRST).list()), None)
    return bucket


@dataclass(frozen=True)
class Bucket:
    """As `Store`: the objects below a URL."""

    #: Such as `s3://bucket/prefix`, without a slash at its end.
    url: str

    @property
    def _store(self) -> ObjectStore:
        return _connect(self.url, _RETRIES)

    def locate(self, name: str = "") -> str:
        """As `Store.locate`."""
        return f"{self.url}/{name}" if name else self.url

    def list_objects(self, folder: str = "") -> Iterator[ObjectMeta]:
        """All below a folder, in the order of their names."""
        with self.explaining(folder):
            for found in self._store.list(folder or None, chunk_size=1000):
                yield from found

    def find_object(self, name: str) -> ObjectMeta | None:
        """The object of that name."""
        with self.explaining(name):
            try:
                return self._store.head(name)
            except FileNotFoundError:
                return None

    def find(self, names: Collection[str]) -> set[str]:
        """As `Store.find`, by one list."""
        return {found["path"] for found in self.list_objects()}.intersection(names)

    def list_names(self, folder: str) -> Iterator[str]:
        """As `Store.list_names`."""
        return (PurePosixPath(each["path"]).name for each in self.list_objects(folder))

    def read(self, name: str) -> bytes | None:
        """As `Store.read`."""
        with self.explaining(name):
            try:
                return bytes(self._store.get(name).bytes())
            except FileNotFoundError:
                return None

    def read_parts(self, found: ObjectMeta) -> Iterator[bytes]:
        """The content of an object, unless it is another one by now."""
        for start in range(0, found["size"], _READ_BYTES):
            with self.explaining(found["path"]):
                part = self._store.get(
                    found["path"],
                    options={
                        "range": (start, start + _READ_BYTES),
                        "if_match": found["e_tag"],
                    },
                )
                yield bytes(part.bytes())

    def write(self, name: str, content: bytes) -> None:
        """As `Store.write`."""
        with self.explaining(name):
            self._store.put(name, content)

    def create(self, name: str, content: bytes) -> bool:
        """Writes a small object, unless there is one. Whether there was none."""
        with self.explaining(name):
            try:
                self._store.put(name, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def name_draft(self, name: str) -> str:
        """A name far from the results."""
        return f"{_STAGED}/{uuid4().hex}"

    @contextmanager
    def write_draft(self, draft: str) -> Iterator[BufferedRandom]:
        """As `Store.write_draft`: a temporary file, which is put at the end."""
        with self.explaining(draft), TemporaryFile() as file:
            yield file
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._store.put(
                draft,
                file,
                chunk_size=max(_PART_BYTES, size_bytes // _MOST_PARTS),
                max_concurrency=_PARTS_AT_ONCE,
            )

    def rename(self, draft: str, name: str) -> None:
        """As `Store.rename`: the store copies the draft."""
        found = self.find_object(draft)
        if found is None:
            raise OutputError(f"{self.locate(draft)}: somebody has removed it")
        if found["size"] > _MOST_COPIED_BYTES:
            with self.write_draft(name) as file:
                file.writelines(self.read_parts(found))
        else:
            with self.explaining(name):
                self._store.copy(draft, name)
        self.remove([draft])

    def remove(self, names: Collection[str]) -> None:
        """As `Store.remove`."""
        with self.explaining():
            try:
                self._store.delete([*names])
            except FileNotFoundError:
                # Some stores say so, and others do not.
                return

    def remove_folder(self, folder: str) -> None:
        """As `Store.remove_folder`."""
        self.remove([found["path"] for found in self.list_objects(folder)])

    def remove_drafts(self) -> None:
        """As `Store.remove_drafts`."""
        self.remove_folder(_STAGED)

    def open_journal(self, name: str) -> ObjectJournal:
        """As `Store.open_journal`."""
        return ObjectJournal(self, name)

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """As `Store.lock`: an object that is renewed again and again. Where it is not, its
        run has ended."""
        lease = _Lease(self)
        lease.take()
        thread = threading.Thread(target=lease.keep, name="lease", daemon=True)
        thread.start()
        try:
            yield lease.check
        finally:
            lease.ending.set()
            thread.join()
            lease.leave()

    @contextmanager
    def explaining(self, name: str = "") -> Iterator[None]:
        """Makes an OutputError of what the store or the disk says."""
        try:
            yield
        except (BaseError, OSError) as error:
            raise OutputError(f"{self.locate(name)}: {_explain(error)}") from error


@dataclass(frozen=True)
class ObjectJournal:
    """As `Journal`: nothing can be added to an object, so each line is one of its own."""

    bucket: Bucket
    name: str
    _added: list[str] = field(default_factory=list)

    @property
    def is_scattered(self) -> bool:
        """As `Journal.is_scattered`."""
        return bool(self._added)

    @property
    def _folder(self) -> str:
        return f"{self.name}.added"

    def read(self) -> Sequence[bytes]:
        """As `Journal.read`."""
        found = self.bucket.list_objects(self._folder)
        self._added[:] = [each["path"] for each in found]
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            contents = pool.map(self.bucket.read, [self.name, *self._added])
            return b"".join(content or b"" for content in contents).splitlines()

    def append(self, line: bytes, *, is_durable: bool = False) -> None:
        """As `Journal.append`."""
        name = f"{self._folder}/{uuid4().hex}"
        self.bucket.write(name, line + b"\n")
        self._added.append(name)

    def replace(self, lines: Iterable[bytes]) -> None:
        """As `Journal.replace`."""
        self.bucket.write(self.name, b"".join(line + b"\n" for line in lines))
        self._remove(self._added)

    def remove(self) -> None:
        """As `Journal.remove`."""
        self._remove([*self._added, self.name])

    def _remove(self, names: Collection[str]) -> None:
        self.bucket.remove(names)
        self._added.clear()


class _Lease:
    """A run's right to write, for as long as it renews it. What counts is whether the object
    changes, so clocks need not agree."""

    def __init__(self, bucket: Bucket) -> None:
        self.ending = threading.Event()
        self._bucket = bucket
        self._holder = f"{socket.gethostname()} {os.getpid()} {uuid4().hex} ".encode()
        self._is_lost = False

    def take(self) -> None:
        """Raises OutputError if another run has it and renews it."""
        seen = self._bucket.read(_LOCK)
        until = time.monotonic() + _PATIENCE_S
        while seen is not None and time.monotonic() < until:
            self.ending.wait(_RENEWED_S)
            now = self._bucket.read(_LOCK)
            if now not in (seen, None):
                raise self._lose()
            seen = now
        if seen is not None:
            self._bucket.write(_LOCK, self._sign())
        elif not self._bucket.create(_LOCK, self._sign()):
            raise self._lose()

    def keep(self) -> None:
        """Renews it until the run ends, or another one has it."""
        while not self.ending.wait(_RENEWED_S):
            # An outage may be over at the next turn.
            with suppress(OutputError):
                if not self._is_held():
                    self._is_lost = True
                    return
                self._bucket.write(_LOCK, self._sign())

    def check(self) -> None:
        """Raises OutputError if another run has it."""
        if self._is_lost:
            raise self._lose()

    def leave(self) -> None:
        """Ends it, unless another run has it."""
        with suppress(OutputError):
            if self._is_held():
                self._bucket.remove([_LOCK])

    def _is_held(self) -> bool:
        return (self._bucket.read(_LOCK) or b"").startswith(self._holder)

    def _sign(self) -> bytes:
        """The holder's name and the time: different at each renewal."""
        return self._holder + datetime.now(UTC).isoformat().encode()

    def _lose(self) -> OutputError:
        return OutputError(f"{self._bucket.url}: another run writes there")


@lru_cache(maxsize=8)
def _connect(url: str, retries: int) -> ObjectStore:
    """Raises what obstore does where the URL or the environment is not complete."""
    return from_url(
        quote(url, safe=":/@"),
        # Only an endpoint that is named so is asked without TLS.
        client_options={"allow_http": True, "timeout": _LIMIT},
        retry_config={"max_retries": retries, "retry_timeout": _RETRY_FOR},
    )


def _explain(error: Exception) -> str:
    """The store's own words, else what has failed and who was asked. No part of the request
    itself: it may hold a signature."""
    if isinstance(error, PreconditionError):
        return "has changed meanwhile"
    text = str(error)
    if said := _SAID.search(text):
        return html.unescape(said[1])
    first = text.partition("\n")[0]
    reason = _KIND.sub("", first.rpartition(" - ")[2]).strip(" :")
    asked = _ASKED.search(first)
    return f"{asked[1]}: {reason}" if asked else reason
