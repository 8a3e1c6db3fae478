"""The storage of sources and results: a folder, or an object store such as S3. A result
that has its name is whole.
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

#: A folder below the results, from which an unfinished run goes on.
KEPT = ".bulk"
_LOCK = f"{KEPT}.lock"
SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
#: Attempts after the first one: at the beginning, and in a run that has got something done.
_RETRIES_FIRST, _RETRIES = 2, 10
_LIMIT = timedelta(minutes=1)
#: The bytes of one request. Larger objects are put in parts, at most 10,000.
_READ_BYTES, _PART_BYTES, _MOST_PARTS = 8 << 20, 8 << 20, 8192
#: The store's own words in an error, and what may hold a signature.
_SAID, _QUERY = re.compile(r"(?s)<Message>(.*?)</Message>"), re.compile(r"\?\S+")


@dataclass(frozen=True)
class ResultFolder:
    """A folder of a file system. Each method raises OutputError."""

    #: Absolute.
    root: Path

    def locate(self, name: str = "") -> str:
        """The place of a file, the same however it is reached."""
        return str((self.root / name).resolve())

    def list_files(self, folder: str = "") -> dict[str, int]:
        """The files below a folder, and when they were changed, in nanoseconds."""
        with _explaining(str(self.root)):
            return {
                path.relative_to(self.root).as_posix(): path.stat().st_mtime_ns
                for path in (self.root / folder).rglob("*")
                if path.is_file()
            }

    def read(self, name: str) -> bytes | None:
        """The content of a small file, if it is there."""
        path = self.root / name
        with _explaining(str(path)):
            return path.read_bytes() if path.exists() else None

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A file to write, which gets its name when it is whole."""
        return write_whole(self.root / name)

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, if they are there."""
        with _explaining(str(self.root)):
            for name in names:
                (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Keeps other runs away."""
        with _explaining(str(self.root)):
            self.root.mkdir(parents=True, exist_ok=True)
            file = (self.root / _LOCK).open("a")
        with file:
            if not durable.try_lock(file.fileno()):
                raise OutputError(f"{self.root}: another run writes there")
            yield lambda: None
            self.remove([_LOCK])
            with suppress(OSError):
                (self.root / KEPT).rmdir()


@dataclass(frozen=True)
class ObjectFolder:
    """The objects below a URL, with the methods of `ResultFolder`."""

    #: Such as `s3://bucket/prefix`, without a slash at its end.
    url: str

    def locate(self, name: str = "") -> str:
        return f"{self.url}/{name}" if name else self.url

    @property
    def store(self) -> ObjectStore:
        """Whom to ask."""
        return _connect(self.url, _RETRIES)

    def list_sources(self, folder: str = "") -> list[Source]:
        """All objects below a folder, in the order of their names."""
        with _explaining(self.locate(folder)):
            pages = self.store.list(folder or None, chunk_size=1000)
            return [self.describe(each) for page in pages for each in page]

    def describe(self, found: ObjectMeta) -> Source:
        """An object as a source, changed in whole seconds: lists may say more than answers."""
        path, changed_s = Path(found["path"]), int(found["last_modified"].timestamp())
        url = self.locate(found["path"])
        return Source(path, path, found["size"], changed_s * 10**9, url)

    def find(self, name: str) -> ObjectMeta | None:
        """The object of that name."""
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
        # Some stores say that an object is not there, and others do not.
        with _explaining(self.url), suppress(FileNotFoundError):
            self.store.delete([*names])

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Takes the place of an earlier run. What it yields raises OutputError once another run
        has taken the place of this one."""
        token = uuid4().bytes
        with self.create(_LOCK) as file:
            file.write(token)

        def check() -> None:
            if self.read(_LOCK) != token:
                raise OutputError(f"{self.url}: another run writes there")

        yield check
        self.remove([_LOCK])


Store = ResultFolder | ObjectFolder


def open_store(place: str) -> Store:
    """A folder, or what a URL names. Raises OutputError, soon, if that is not an object
    store's, or nothing can be listed there."""
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
    """The files or objects that are named. Raises ClientError."""
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
    """The source as a file of this machine. Raises InputError."""
    if not source.url:
        yield source
        return
    # It has no name on the disk, so that nothing is left of it where its process is killed.
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
        raise OutputError(f"{source.url}: somebody has removed it")
    for start in range(0, found["size"], _READ_BYTES):
        within = start, start + _READ_BYTES
        with _explaining(source.url):
            part = bucket.store.get(
                name, options={"range": within, "if_match": found["e_tag"]}
            )
            file.write(part.bytes())
    file.flush()
    # So that the copy tells whether the object is still the same.
    changed_ns = bucket.describe(found).modified_ns
    os.utime(file.fileno(), ns=(changed_ns, changed_ns))


@lru_cache(maxsize=8)
def _connect(url: str, retries: int) -> ObjectStore:
    """Raises what obstore does where the URL or the environment is not complete."""
    return from_url(
        quote(url, safe=":/@"),
        # Only an endpoint that is named so is asked without TLS.
        client_options={"allow_http": True, "timeout": _LIMIT},
        retry_config={"max_retries": retries, "retry_timeout": _LIMIT},
    )


@contextmanager
def _explaining(place: str) -> Iterator[None]:
    """Makes an OutputError of what the store or the disk says."""
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
