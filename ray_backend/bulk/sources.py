"""Finds the sources of a run, and copies those of an object store to this machine while they
are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

from clients.errors import InputError, OutputError
from clients.sources import Kind, Source, find_sources
from ray_backend.bulk.objects import Bucket, open_bucket

if TYPE_CHECKING:
    from obstore import ObjectMeta


def find(argument: str, kind: Kind) -> list[Source]:
    """The files or objects that are named. Raises ClientError."""
    bucket = open_bucket(argument)
    if bucket is None:
        return find_sources([argument], kind)
    folder, _, name = bucket.url.rpartition("/")
    parent = Bucket(folder)
    if not folder.endswith("/") and (found := parent.find_object(name)):
        return [_describe(parent, found)]
    sources = [
        _describe(bucket, found)
        for found in bucket.list_objects()
        if kind.includes(PurePosixPath(found["path"]))
    ]
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
            found = _download(source, file)
        except (OutputError, OSError) as error:
            raise InputError(str(error)) from error
        yield found


@dataclass(frozen=True)
class _Copy(Source):
    """The copy of an object."""

    is_another: bool = False

    def has_changed(self) -> bool:
        return self.is_another


def _download(source: Source, file: BinaryIO) -> _Copy:
    relative = source.relative
    bucket = Bucket(source.url.removesuffix(f"/{relative.as_posix()}"))
    found = bucket.find_object(relative.as_posix())
    if found is None:
        raise OutputError(f"{source.url}: somebody has removed it")
    for part in bucket.read_parts(found):
        file.write(part)
    file.flush()
    size_bytes, modified_ns = found["size"], _find_time(found)
    return _Copy(
        Path(f"/proc/self/fd/{file.fileno()}"),
        relative,
        size_bytes,
        modified_ns,
        source.url,
        (size_bytes, modified_ns) != (source.size_bytes, source.modified_ns),
    )


def _describe(bucket: Bucket, found: ObjectMeta) -> Source:
    path = Path(found["path"])
    url = bucket.locate(found["path"])
    return Source(path, path, found["size"], _find_time(found), url)


def _find_time(found: ObjectMeta) -> int:
    """In whole seconds: lists may say more than answers do."""
    return int(found["last_modified"].timestamp()) * 10**9
