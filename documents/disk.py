"""Folders on the disk: their names and ages, the folder for what nobody can read, and the one
that says when documents are to be deleted: an empty file for each, in a folder for each quarter
of an hour. A sweep reads only the folders whose time has come.

    expiring/<number of the quarter>/<unix seconds>~<owner>~<id>
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contract import durable


def list_names(folder: Path) -> list[str]:
    """List the names in a folder; nothing where there is none. Raises OSError."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_age(path: Path, now: float) -> float:
    """Seconds since something was changed or moved; 0 where it is gone. Raises OSError."""
    try:
        return now - path.stat().st_ctime
    except FileNotFoundError:
        return 0.0


def remove(path: Path) -> None:
    """Deletes a file or a folder as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


log = logging.getLogger(__name__)


class Aside:
    """A folder of `<digits>-<name>`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: set[Path] = set()

    def put(self, path: Path) -> None:
        """Moves a file or a folder here, if there is one and it may be moved."""
        with self.guard(path):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            name = f"{secrets.token_hex(4)}-{path.name[:100]}"
            durable.rename(path, self._folder / name)
            log.warning("%.8s… cannot be read: it is put aside", path.name)

    @contextmanager
    def guard(self, path: Path) -> Iterator[None]:
        """Keeps what the disk says of one entry from the others."""
        try:
            yield
        except FileNotFoundError:
            pass  # somebody else has moved or deleted it
        except OSError as error:
            if path not in self._told:
                self._told.add(path)
                log.error("%.8s… is skipped: %s", path.name, type(error).__name__)


_QUARTER_S = 900


class Expiry:
    """The times of all documents. Every call may block for the time that the disk takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, owner: str, document_id: str, expires_at: float) -> None:
        """Has a document found when its time has come. Raises OSError."""
        second = math.ceil(expires_at)
        quarter = self._folder / str(second // _QUARTER_S)
        quarter.mkdir(mode=0o700, parents=True, exist_ok=True)
        (quarter / f"{second}~{owner}~{document_id}").touch()

    def list_due(self, now: float) -> Iterator[tuple[Path, str, str]]:
        """The files of documents whose time has come, the longest ago first, with their owners
        and ids. A caller that deletes a document removes its file. Raises OSError."""
        current = now // _QUARTER_S
        quarters = filter(str.isdecimal, list_names(self._folder))
        for quarter in sorted(quarters, key=int):
            if int(quarter) > current:
                return
            for name in sorted(list_names(self._folder / quarter)):
                second, _, document = name.partition("~")
                owner, _, document_id = document.partition("~")
                if second.isdecimal() and int(second) < now:
                    yield self._folder / quarter / name, owner, document_id
            if int(quarter) < current:
                with suppress(OSError):  # it is not empty yet
                    (self._folder / quarter).rmdir()
