"""Makes files, logs and transactions survive a kill and a power cut. Nothing else of the
program syncs, renames, locks or commits, so the tests can fail each of these steps.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ETIMEDOUT
from pathlib import Path
from typing import Any, BinaryIO, Protocol

#: A kill loses no line of a log; a power cut loses at most the lines of this many seconds.
_SYNC_EVERY_S = 1.0
#: How long a writer waits for another one of the same file, and between two looks.
_WAIT_S, _LOOK_S = 60.0, 0.01


class Transaction(Protocol):
    """A connection or session of a database."""

    def commit(self) -> None:
        """Ends the transaction."""


def sync(path: Path) -> None:
    """Returns when a file's content, or the names in a folder, are on the disk. Raises
    OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Gives a file or a folder another name, and takes the place of a file there. Raises
    OSError; then it may have the new name already."""
    os.replace(source, target)
    sync(target.parent)


@contextmanager
def create(
    path: Path, *, mode: int = 0o666, is_synced: bool = True
) -> Iterator[BinaryIO]:
    """An empty file that takes the place of `path` when the block ends, and is gone if the
    block raises. Other writers of `path` wait meanwhile, for a minute at most. Unless it
    `is_synced`, a power cut may leave a torn one. Raises OSError."""
    draft = path.with_name(f".{path.name}.draft")
    # A killed writer leaves it unlocked, and the next one uses it again.
    with _lock(draft, mode) as file:
        file.truncate()
        try:
            yield file
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
            os.replace(draft, path)
        finally:
            if _is_at(draft, file):
                draft.unlink()
    if is_synced:
        sync(path.parent)


def write(
    path: Path, content: str | bytes, *, mode: int = 0o600, is_synced: bool = True
) -> None:
    """Create a file with all of its content; see `create`."""
    with create(path, mode=mode, is_synced=is_synced) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_once(path: Path, content: str) -> None:
    """Writes a file that only its owner may read, unless there is one: the first writer wins.
    Raises OSError."""
    if not path.exists():
        with suppress(FileExistsError), create(path, mode=0o600) as file:
            if path.exists():
                raise FileExistsError
            file.write(content.encode())


class AppendLog:
    """A file that only grows. Only one program at a time may have it open."""

    def __init__(self, path: Path, *, mode: int = 0o666) -> None:
        """Opens or makes it. Raises OSError."""
        if not path.exists():
            path.touch(mode)
            sync(path.parent)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._synced_at = time.monotonic()

    def fileno(self) -> int:
        """The descriptor, such as `try_lock` takes."""
        return self._file.fileno()

    def append(self, data: bytes) -> int:
        """Writes all or nothing, and returns where it begins. Raises OSError."""
        start = self._file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(data)
            while rest:  # a disk that is almost full takes a part
                rest = rest[os.write(self.fileno(), rest) :]
            if time.monotonic() - self._synced_at > _SYNC_EVERY_S:
                self.sync()
        except OSError:
            with suppress(OSError):
                self.truncate(start)
            raise
        return start

    def append_lines(self, contents: Iterable[Any]) -> int:
        """Writes a line of JSON for each content, as `append` does."""
        lines = (
            json.dumps(each, ensure_ascii=False, separators=(",", ":"))
            for each in contents
        )
        data = "".join(f"{line}\n" for line in lines)
        return self.append(data.encode("utf-8", "surrogatepass"))

    def truncate(self, end: int) -> None:
        """Drops what follows. Raises OSError."""
        os.ftruncate(self.fileno(), end)

    def sync(self) -> None:
        """Returns when all is on the disk. Raises OSError."""
        os.fsync(self.fileno())
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Gives the file and its lock back."""
        self._file.close()


def read_lines(path: Path, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield where each line of a log of JSON ends and what it says, from the byte `start` up to
    the first line that a kill or a power cut has torn. Raises OSError."""
    with path.open("rb") as file:
        end = file.seek(start)
        for line in file:
            end += len(line)
            try:
                content = json.loads(line)
            except ValueError:
                return
            if not line.endswith(b"\n"):
                return
            yield end, content


def try_lock(descriptor: int) -> bool:
    """Locks a file until its descriptor is closed or `unlock`. False where another one has
    the lock. Raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Gives a lock back. Raises OSError."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def commit(transaction: Transaction) -> None:
    """Makes a transaction durable. Raises what the database's library raises."""
    transaction.commit()


def _lock(draft: Path, mode: int) -> BinaryIO:
    give_up_at = time.monotonic() + _WAIT_S
    while time.monotonic() < give_up_at:
        file = open(os.open(draft, os.O_CREAT | os.O_RDWR, mode), "wb")  # noqa: SIM115
        if try_lock(file.fileno()) and _is_at(draft, file):
            return file
        file.close()  # another writer has the lock, or has renamed or removed the file
        time.sleep(_LOOK_S)
    raise TimeoutError(ETIMEDOUT, "another program still writes the file", str(draft))


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
