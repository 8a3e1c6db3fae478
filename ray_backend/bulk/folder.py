"""A folder of a file system that all machines of a run see."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedRandom
from pathlib import Path
from uuid import uuid4

from clients.errors import OutputError
from ray_backend.bulk.storage import KEPT

_PART = ".part"
#: As `name_draft` names them.
_TORN = re.compile(rf"\..*\.[0-9a-f]{{8}}{re.escape(_PART)}")


@dataclass(frozen=True)
class Folder:
    """As `Store`: what is written is on the disk, and gets its name by a rename."""

    #: Absolute.
    root: Path

    def locate(self, name: str = "") -> str:
        """As `Store.locate`."""
        return str((self.root / name).resolve())

    def find(self, names: Collection[str]) -> set[str]:
        """As `Store.find`."""
        return {name for name in names if (self.root / name).exists()}

    def list_names(self, folder: str) -> Iterator[str]:
        """As `Store.list_names`."""
        found = (self.root / folder).glob("*")
        return (path.name for path in found if not _TORN.fullmatch(path.name))

    def read(self, name: str) -> bytes | None:
        """As `Store.read`."""
        path = self.root / name
        with _explaining(path):
            return path.read_bytes() if path.exists() else None

    def write(self, name: str, content: bytes) -> None:
        """As `Store.write`."""
        draft = self.name_draft(name)
        with self.write_draft(draft) as file:
            file.write(content)
        self.rename(draft, name)

    def name_draft(self, name: str) -> str:
        """A hidden name beside the result."""
        path = Path(name)
        return path.with_name(f".{path.name}.{uuid4().hex[:8]}{_PART}").as_posix()

    @contextmanager
    def write_draft(self, draft: str) -> Iterator[BufferedRandom]:
        """As `Store.write_draft`."""
        path = self.root / draft
        with _explaining(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("w+b") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def rename(self, draft: str, name: str) -> None:
        """As `Store.rename`."""
        with _explaining(self.root / draft):
            (self.root / draft).replace(self.root / name)

    def remove(self, names: Collection[str]) -> None:
        """As `Store.remove`."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        """As `Store.remove_folder`."""
        shutil.rmtree(self.root / folder, ignore_errors=True)

    def remove_drafts(self) -> None:
        """As `Store.remove_drafts`."""
        for path in self.root.rglob(f".*{_PART}"):
            if _TORN.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def open_journal(self, name: str) -> FileJournal:
        """As `Store.open_journal`."""
        return FileJournal(self.root / name)

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """As `Store.lock`: ends with the process."""
        path = self.root / KEPT / "lock"
        with _explaining(self.root):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.open("a")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OutputError(f"{self.root}: another run writes there") from error
            yield lambda: None


@dataclass(frozen=True)
class FileJournal:
    """As `Journal`: one file."""

    path: Path
    _turn: threading.Lock = field(default_factory=threading.Lock)

    is_scattered = False

    def read(self) -> Sequence[bytes]:
        """As `Journal.read`."""
        return self.path.read_bytes().splitlines() if self.path.exists() else ()

    def append(self, line: bytes, *, is_durable: bool = False) -> None:
        """As `Journal.append`."""
        with self._turn, _explaining(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line + b"\n")
                file.flush()
                if is_durable:
                    os.fsync(file.fileno())

    def replace(self, lines: Iterable[bytes]) -> None:
        """As `Journal.replace`."""
        content = b"".join(line + b"\n" for line in lines)
        Folder(self.path.parent).write(self.path.name, content)

    def remove(self) -> None:
        """As `Journal.remove`."""
        self.path.unlink(missing_ok=True)


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from error
