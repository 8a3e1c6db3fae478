"""The folders of a run: results, and what is kept beside them until the run has ended."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from clients.errors import OutputError
from clients.sources import Source

_PART = ".part"
#: As `name_part` names them.
_TORN = re.compile(rf"\..*\.[0-9a-f]{{8}}{re.escape(_PART)}")


@dataclass(frozen=True)
class Workspace:
    """Where results go; all machines of a run see it."""

    #: Absolute.
    results: Path

    @property
    def kept(self) -> Path:
        """What another run of the same command goes on from."""
        return self.results / ".bulk"

    def find_part(self, source: Source, part: int) -> Path:
        """The answers to a part of a large file, as it is now."""
        return self.kept / "parts" / _name(source) / f"{part:06}"

    def find_ledger(self, items: Iterable[str]) -> Path:
        """The attempts at a list of texts, or at a video by its name."""
        return self.kept / "ledgers" / _digest("\0".join(items))

    def remove_torn(self) -> None:
        """Removes what killed workers have left of results."""
        for path in self.results.rglob(f".*{_PART}"):
            if _TORN.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def make_folders(self) -> None:
        """Raises OutputError if the results cannot be written there."""
        try:
            (self.kept / "ledgers").mkdir(parents=True, exist_ok=True)
            (self.kept / "parts").mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.results}: {error.strerror}") from error

    @contextmanager
    def open(self, options: Mapping[str, Any], *, is_restart: bool) -> Iterator[None]:
        """Keeps other runs away. What is kept beside the results is removed at the end
        unless that is an exception. Raises OutputError if another run is at work, or was
        begun with other options and not ended."""
        self.make_folders()
        with (self.kept / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OutputError(
                    f"{self.results}: another run writes there"
                ) from error
            if is_restart:
                shutil.rmtree(self.kept / "parts", ignore_errors=True)
                shutil.rmtree(self.kept / "ledgers", ignore_errors=True)
                self.make_folders()
            self._check_options(options, is_restart=is_restart)
            yield
            shutil.rmtree(self.kept, ignore_errors=True)

    def _check_options(self, options: Mapping[str, Any], *, is_restart: bool) -> None:
        path = self.kept / "options.json"
        wanted = json.dumps(options, sort_keys=True, default=str)
        if path.exists() and not is_restart and path.read_text("utf-8") != wanted:
            raise OutputError(
                f"{self.results}: a run with other options was begun there; repeat its "
                "command, or begin anew with --overwrite"
            )
        with write_whole(path) as file:
            file.write(wanted.encode())


@contextmanager
def write_part(output: Path, part: Path) -> Iterator[BinaryIO]:
    """A file beside `output`, complete and on the disk at the end. Raises OutputError."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OutputError(f"{output}: {error.strerror or error}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """A file that has its name once it is complete; several may write the same."""
    part = name_part(path)
    with write_part(path, part) as file:
        yield file
    part.replace(path)


def name_part(output: Path) -> Path:
    """A hidden name beside `output` that nobody else uses."""
    return output.with_name(f".{output.name}.{uuid4().hex[:8]}{_PART}")


def _name(source: Source) -> str:
    """Changes with the file."""
    state = f"{source.path.absolute()}\n{source.size_bytes}\n{source.modified_ns}"
    return _digest(state)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
