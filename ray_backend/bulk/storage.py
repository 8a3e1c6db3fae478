"""The storage of sources and results: a folder, or an object store such as S3. A result gets
its name only when it is complete.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote
from uuid import uuid4

from obstore.exceptions import BaseError, PreconditionError
from obstore.store import from_url

from clients.errors import InputError, OutputError
from clients.files import Source, SourceKind, find_sources, write_whole
from contract import durable

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

#: A folder below the results, from which an unfinished run resumes.
KEPT = ".bulk"
_LOCK = f"{KEPT}.lock"
SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
#: Retries of a request: at the beginning, and in a run that may have made progress.
_RETRIES_FIRST, _RETRIES = 2, 10
_LIMIT = timedelta(minutes=1)
#: The bytes of one request. Larger objects are uploaded in parts, at most 10,000.
_READ_BYTES, _PART_BYTES, _MOST_PARTS = 8 << 20, 8 << 20, 8192
#: The store's message in an error, and the part of a URL that may contain a signature.
_SAID, _QUERY = re.compile(r"(?s)<Message>(.*?)</Message>"), re.compile(r"\?\S+")


@dataclass(frozen=True)
class ResultFolder:
    """A folder of a file system. Every method may raise OutputError."""

    #: Absolute.
    root: Path

    def locate(self, name: str = "") -> str:
        """Return the path of a file, the same however it is reached."""
        return str((self.root / name).resolve())

    def list_files(self, folder: str = "") -> dict[str, int]:
        """Return the files below a folder, with their times of change in nanoseconds."""
        with _explaining(str(self.root)):
            return {
                path.relative_to(self.root).as_posix(): path.stat().st_mtime_ns
                for path in (self.root / folder).rglob("*")
                if path.is_file()
            }

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if there is none."""
        path = self.root / name
        with _explaining(str(path)):
            return path.read_bytes() if path.exists() else None

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file to write, which gets its name when it is complete."""
        return write_whole(self.root / name)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they exist."""
        with _explaining(str(self.root)):
            for name in names:
                (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Lock out other runs."""
        with _explaining(str(self.root)):
            self.root.mkdir(parents=True, exist_ok=True)
            file = (path := self.root / _LOCK).open("a")
        with file:
            if not durable.lock_at(path, file):
                raise OutputError(f"{self.root}: another run is writing there")
            yield lambda: None
            with suppress(OSError):
                (self.root / KEPT).rmdir()
            self.remove([_LOCK])


@dataclass(frozen=True)
class ObjectFolder:
    """The objects below a URL, with the methods of `ResultFolder`."""

    #: Such as `s3://bucket/prefix`, without a trailing slash.
    url: str

    def locate(self, name: str = "") -> str:
        return f"{self.url}/{name}" if name else self.url

    @property
    def store(self) -> ObjectStore:
        """The client of the object store."""
        return _connect(self.url, _RETRIES)

    def list_sources(self, folder: str = "") -> list[Source]:
        """Return all objects below a folder, in the order of their names."""
        with _explaining(self.locate(folder)):
            pages = self.store.list(folder or None, chunk_size=1000)
            return [self.describe(each) for page in pages for each in page]

    def describe(self, found: ObjectMeta) -> Source:
        """Return an object as a source. Its time is in whole seconds: only lists have more."""
        path = Path(found["path"])
        changed_s = int(found["last_modified"].timestamp())
        url = self.locate(found["path"])
        return Source(path, path, found["size"], changed_s * 10**9, url)

    def find(self, name: str) -> ObjectMeta | None:
        """Return the object with this name, or None."""
        with _explaining(self.locate(name)), suppress(FileNotFoundError):
            return self.store.head(name)
        return None

    def list_files(self, folder: str = "") -> dict[str, int]:
        return {s.path.as_posix(): s.modified_ns for s in self.list_sources(folder)}

    def read(self, name: str) -> bytes | None:
        with _explaining(self.locate(name)), suppress(FileNotFoundError):
            return bytes(self.store.get(name).bytes())
        return None

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        with _explaining(self.locate(name)), TemporaryFile() as file:
            yield file
            chunk_size = max(_PART_BYTES, file.tell() // _MOST_PARTS)
            file.seek(0)
            self.store.put(name, file, chunk_size=chunk_size, max_concurrency=4)

    def remove(self, names: Iterable[str]) -> None:
        # Some stores report a missing object as an error, and others do not.
        with _explaining(self.url), suppress(FileNotFoundError):
            self.store.delete([*names])

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Replace the lock of an earlier run. The yielded function raises OutputError once
        another run has replaced this one's lock."""
        token = uuid4().bytes
        with self.create(_LOCK) as file:
            file.write(token)

        def check() -> None:
            if self.read(_LOCK) != token:
                raise OutputError(f"{self.url}: another run is writing there")

        yield check
        self.remove([_LOCK])


Store = ResultFolder | ObjectFolder


def open_store(place: str) -> Store:
    """Return a folder or, for a URL, an object store. Raises OutputError, without long retries,
    if the URL names none, or its objects cannot be listed."""
    scheme, colon, rest = place.partition("://")
    if not colon:
        return ResultFolder(Path(place).absolute())
    if scheme not in SCHEMES or not rest.strip("/"):
        raise OutputError(
            f"{place}: expected a folder, or a URL such as s3://bucket/folder that begins "
            f"with {', '.join(SCHEMES)}"
        )
    url = place.rstrip("/")
    with _explaining(url):
        next(iter(_connect(url, _RETRIES_FIRST).list()), None)
    return ObjectFolder(url)


def find(argument: str, kind: SourceKind) -> list[Source]:
    """Return the files or objects that the argument names. Raises ClientError."""
    bucket = open_store(argument)
    if isinstance(bucket, ResultFolder):
        return find_sources([argument], kind)
    folder, _, name = bucket.url.rpartition("/")
    parent = ObjectFolder(folder)
    if not folder.endswith("/") and (one := parent.find(name)):
        return [parent.describe(one)]
    sources = [each for each in bucket.list_sources() if kind.includes(each.relative)]
    if not sources:
        raise InputError(
            f"{argument}: no object, and no folder with a {kind.name} "
            f"({' '.join(sorted(kind.suffixes))})"
        )
    return sorted(sources, key=lambda source: source.relative)


@contextmanager
def fetch(source: Source) -> Iterator[Source]:
    """Yield the source as a local file. Raises InputError."""
    if not source.url:
        yield source
        return
    # The file has no name on disk, so nothing is left of it if its process is killed.
    with TemporaryFile() as file:
        try:
            _download(source, file)
        except (OutputError, OSError) as error:
            raise InputError(str(error)) from error
        yield replace(source, path=Path(f"/proc/self/fd/{file.fileno()}"))


def _download(source: Source, file: BinaryIO) -> None:
    name = source.relative.as_posix()
    bucket = ObjectFolder(source.url.removesuffix(f"/{name}"))
    found = bucket.find(name)
    if found is None:
        raise OutputError(f"{source.url}: it no longer exists")
    for start in range(0, found["size"], _READ_BYTES):
        within = start, start + _READ_BYTES
        with _explaining(source.url):
            part = bucket.store.get(
                name, options={"range": within, "if_match": found["e_tag"]}
            )
            file.write(part.bytes())
    file.flush()
    # The copy's time shows whether the object is still the same.
    changed_ns = bucket.describe(found).modified_ns
    os.utime(file.fileno(), ns=(changed_ns, changed_ns))


@lru_cache(maxsize=8)
def _connect(url: str, retries: int) -> ObjectStore:
    """Connect to a store. Raises obstore's error if the URL or environment is incomplete."""
    return from_url(
        quote(url, safe=":/@"),
        # Only an endpoint with an http:// URL is used without TLS.
        client_options={"allow_http": True, "timeout": _LIMIT},
        retry_config={"max_retries": retries, "retry_timeout": _LIMIT},
    )


@contextmanager
def _explaining(place: str) -> Iterator[None]:
    """Turn errors of the store or the disk into an OutputError."""
    try:
        yield
    except PreconditionError as error:
        raise OutputError(f"{place} has changed meanwhile") from error
    except (BaseError, OSError) as error:
        said = _SAID.search(str(error))
        first = _QUERY.sub("", str(error).partition("\n")[0])
        strerror = error.strerror if isinstance(error, OSError) else None
        reason = strerror or (html.unescape(said[1]) if said else first)
        raise OutputError(f"{place}: {reason}") from error
