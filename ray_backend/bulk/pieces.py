"""What goes from a reader to a worker, and from a worker to the run: pieces of files, and
what has become of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from clients.sources import Kind, Source
from clients.tables.table import Cell
from ray_backend.bulk.manifest import Record
from ray_backend.bulk.storage import Draft
from ray_backend.bulk.workspace import Workspace


@dataclass(frozen=True)
class Piece:
    """A file, or a part of a large one."""

    source: Source
    #: Its number in the file, from 0.
    part: int = 0
    is_last: bool = True
    #: How much of the file it is, from 0 to 1.
    share: float = 1.0
    #: None if an earlier run has answered them.
    cells: tuple[Cell, ...] | None = ()
    #: Why the file could not be read further.
    error: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether there is no other piece of the file."""
        return self.part == 0 and self.is_last


#: What a worker gets at once.
Chunk = tuple[Piece, ...]


@dataclass(frozen=True)
class Finished:
    """A file whose result is complete, but for its name."""

    source: Source
    #: None if there was nothing to write.
    record: Record | None
    #: The name that the result has until then.
    draft: str | None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What has become of a piece."""

    source: Source
    part: int
    is_last: bool
    share: float
    #: Texts or frames, without those of an earlier run.
    count: int
    #: For a file of one piece.
    finished: Finished | None = None


CHUNKS = TypeAdapter(Chunk)
REPORTS = TypeAdapter(tuple[Report, ...])


class Worker(Protocol):
    """A loaded model. Safe to call from two threads, of which one reads and writes while
    the other one's texts are in the model."""

    def __call__(self, chunk: Chunk) -> Iterator[Report]:
        """A report for each piece."""


class Task(Protocol):
    """What is to be done with files. Goes to every process of a run."""

    @property
    def workspace(self) -> Workspace:
        """Where results go."""

    @property
    def unit(self) -> str:
        """What is counted: `texts` or `frames`."""

    @property
    def sources(self) -> Kind:
        """What files it is for."""

    def check(self, sources: Sequence[Source]) -> None:
        """Raises ClientError where nothing can come of it."""

    def describe(self) -> Mapping[str, Any]:
        """All that results depend on beside the files."""

    def name_output(self, source: Source) -> Path:
        """Where a file's result goes, below the results."""

    def group(self, sources: Sequence[Source]) -> Iterator[tuple[Source, ...]]:
        """The files that are read together, because each alone would be too little work."""

    def read(self, sources: Sequence[Source]) -> Iterator[Chunk]:
        """The files' pieces in order."""

    def load(self) -> Worker:
        """Loads the model, in the process that is to run it."""

    def assemble(self, source: Source, parts: int) -> Finished:
        """The result of a file whose parts are all answered."""


def make_record(task: Task, source: Source, draft: Draft, **counts: Any) -> Record:
    """The record of a result that has been written."""
    return Record(
        file=source.name,
        output=task.name_output(source).as_posix(),
        bytes=draft.size_bytes,
        sha256=draft.sha256,
        source_bytes=source.size_bytes,
        source_modified_ns=source.modified_ns,
        **counts,
    )
