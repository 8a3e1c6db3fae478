"""What results are kept in: a folder of a file system, or an object store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BufferedRandom
from typing import BinaryIO, Protocol

#: What another run of the same command goes on from, below the results.
KEPT = ".bulk"


class Journal(Protocol):
    """Lines that stay when their writer is killed. Safe to share among threads."""

    def read(self) -> Sequence[bytes]:
        """All lines; the last one may be torn."""

    def append(self, line: bytes, *, is_durable: bool = False) -> None:
        """Adds one; if it is durable, not even a machine that ends loses it. Raises
        OutputError."""

    def replace(self, lines: Iterable[bytes]) -> None:
        """Other lines in the place of all, at once."""

    def remove(self) -> None:
        """All lines."""

    @property
    def is_scattered(self) -> bool:
        """Whether lines are still beside the file, until `replace` puts them into it."""


class Store(Protocol):
    """Files by their names below one place, such as `more/a.fr.jsonl`. Each method raises
    OutputError. Goes to every process of a run."""

    def locate(self, name: str = "") -> str:
        """The place of a file, the same however it is reached."""

    def find(self, names: Collection[str]) -> set[str]:
        """Those of the names that are there."""

    def list_names(self, folder: str) -> Iterator[str]:
        """The names of whole files right below a folder, without it."""

    def read(self, name: str) -> bytes | None:
        """The content of a small file, if it is there."""

    def write(self, name: str, content: bytes) -> None:
        """A small file, whole or not at all; several may write the same."""

    def name_draft(self, name: str) -> str:
        """A name that nobody else uses, for a result until it gets its own."""

    def write_draft(self, draft: str) -> AbstractContextManager[BufferedRandom]:
        """A file to write and to read, which is complete and kept at the end."""

    def rename(self, draft: str, name: str) -> None:
        """Gives a draft its name, at once."""

    def remove(self, names: Collection[str]) -> None:
        """Files, if they are there."""

    def remove_folder(self, folder: str) -> None:
        """A folder, if it is there."""

    def remove_drafts(self) -> None:
        """What killed workers have left."""

    def open_journal(self, name: str) -> Journal:
        """The lines of a file."""

    def lock(self) -> AbstractContextManager[Callable[[], None]]:
        """Keeps other runs away. What it yields raises OutputError if one has come."""


class Draft:
    """A result until it gets its name."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = store.name_draft(name)
        self.is_written = False
        self.size_bytes = 0
        self.sha256 = ""
        self._store = store

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file to write. Raises OutputError."""
        with self._store.write_draft(self.name) as file:
            yield file
            self.size_bytes = file.seek(0, os.SEEK_END)
            file.seek(0)
            self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self.is_written = True
