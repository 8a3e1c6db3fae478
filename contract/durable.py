"""Makes files, logs and transactions survive crashes and power loss. Only this module syncs,
renames, locks and commits, so the tests can make each of these steps fail."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ETIMEDOUT
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

#: A crash loses no line of a log; power loss loses at most the lines of this many seconds.
_SYNC_EVERY_S = 1.0
#: How long a writer waits for another writer of the same file, and between two attempts.
_WAIT_S, _LOOK_S = 60.0, 0.01
#: The most bytes of a name to which `.` and `.draft` can be added.
_LONGEST_NAME = 248


class Transaction(Protocol):
    """A connection or session of a database."""

    def commit(self) -> None:
        """Commit the transaction."""


def sync(path: Path) -> None:
    """Flush a file's content, or the names in a folder, to disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder durably; it replaces a file at `target`. Raises OSError, after
    which the new name may already be in place."""
    os.replace(source, target)
    sync(target.parent)


def shorten(name: str) -> str:
    """Return a file's name or, if that leaves no room for an ending, its hash."""
    given = os.fsencode(name)
    return name if len(given) <= _LONGEST_NAME else sha256(given).hexdigest()


@contextmanager
def create(
    path: Path, *, mode: int = 0o666, is_synced: bool = True
) -> Iterator[BinaryIO]:
    """Create an empty file that replaces `path` when the block ends, or is deleted if the
    block raises. Other writers of `path` wait up to a minute. Unless `is_synced`, power loss
    may leave a torn file. Raises OSError."""
    draft = path.with_name(f".{shorten(path.name)}.draft")
    # A killed writer leaves the draft unlocked, and the next writer reuses it.
    with _lock(draft, mode) as file:
        file.truncate()
        try:
            yield file
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
            os.replace(draft, path)
        finally:
            if is_at(draft, file):
                draft.unlink()
    if is_synced:
        sync(path.parent)


def write(
    path: Path, content: str | bytes, *, mode: int = 0o600, is_synced: bool = True
) -> None:
    """Write a whole file; see `create`."""
    with create(path, mode=mode, is_synced=is_synced) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def make_secret(path: Path) -> str:
    """Return the secret in a file that only its owner may read. Without the file, write a
    random one: the first writer wins. Raises OSError."""
    if not path.exists():
        with suppress(FileExistsError), create(path, mode=0o600) as file:
            if path.exists():
                raise FileExistsError
            file.write(secrets.token_hex(32).encode())
    return path.read_text()


class AppendLog:
    """An append-only file. Only one program at a time may have it open."""

    def __init__(self, path: Path, *, mode: int = 0o666) -> None:
        """Open or create the log. Raises OSError."""
        if not path.exists():
            path.touch(mode)
            sync(path.parent)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._synced_at = time.monotonic()

    def fileno(self) -> int:
        """Return the descriptor, for `try_lock`."""
        return self._file.fileno()

    def append(self, data: bytes) -> int:
        """Write all of the data or nothing, and return its start. Raises OSError."""
        start = self._file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(data)
            while rest:  # an almost full disk accepts only a part
                rest = rest[os.write(self.fileno(), rest) :]
            if time.monotonic() - self._synced_at > _SYNC_EVERY_S:
                self.sync()
        except OSError:
            with suppress(OSError):
                self.truncate(start)
            raise
        return start

    def append_lines(self, contents: Iterable[Any]) -> int:
        """Append a line of JSON for each content, and return the start of the first."""
        encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        data = "".join(f"{encode(each)}\n" for each in contents)
        return self.append(data.encode("utf-8", "surrogatepass"))

    def truncate(self, end: int) -> None:
        """Cut off the log at `end`. Raises OSError."""
        os.ftruncate(self.fileno(), end)

    def sync(self) -> None:
        """Flush the log to disk. Raises OSError."""
        os.fsync(self.fileno())
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()


def read_lines(path: Path, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield the end and the content of each line of a JSON log, from byte `start` to the first
    line torn by a crash or power loss. Raises OSError."""
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
    """Lock a file until `unlock` or the closing of its descriptor. Return False if it is
    already locked. Raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release a lock. Raises OSError."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def commit(transaction: Transaction) -> None:
    """Commit a transaction durably. Raises the errors of the database's library."""
    transaction.commit()


def _lock(draft: Path, mode: int) -> BinaryIO:
    give_up_at = time.monotonic() + _WAIT_S
    while time.monotonic() < give_up_at:
        file = open(os.open(draft, os.O_CREAT | os.O_RDWR, mode), "wb")  # noqa: SIM115
        if lock_at(draft, file):
            return file
        file.close()  # another writer has the lock, or has renamed or removed the file
        time.sleep(_LOOK_S)
    raise TimeoutError(ETIMEDOUT, "another program still writes the file", str(draft))


def lock_at(path: Path, file: IO[Any] | AppendLog) -> bool:
    """Lock an open file. Return False if it is already locked, or has lost its name to another
    program before. Raises OSError."""
    return try_lock(file.fileno()) and is_at(path, file)


def is_at(path: Path, file: IO[Any] | AppendLog) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
