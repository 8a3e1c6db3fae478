"""One run: finds out which results are missing, has the work done, and writes them."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from catalog import Model
from clients.bulk import Event, Remarks, Report
from clients.errors import InputError, OutputError
from clients.files import Source, SourceKind, name_files
from clients.tables import Cell
from ray_backend.bulk.storage import KEPT, Store

#: Chunks whose results are written at once: an object store takes its time for each.
_WRITTEN_AT_ONCE = 16
_OPTIONS, _FAILED = f"{KEPT}/options.json", f"{KEPT}/failed"

#: A loaded model: an answer for each text, or for each video.
Answerer = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class FilePart:
    """A file, or a part of a large one."""

    source: Source
    #: Its number in the file, from 0.
    number: int = 0
    is_last: bool = True
    #: The share of the file, from 0 to 1.
    share: float = 1.0
    #: The texts and what is between them; None if an earlier run has answered them.
    cells: Sequence[Cell] | None = ()
    #: The reason why the file could not be read further.
    error: str | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to translate."""
        return [cell.text or "" for cell in self.cells or () if cell.is_wanted]

    @property
    def is_whole(self) -> bool:
        """Whether the file has no other part."""
        return self.number == 0 and self.is_last


@dataclass(frozen=True)
class Chunk:
    """The parts of files that a worker gets at once, and the texts or videos in them."""

    parts: tuple[FilePart, ...]
    items: Sequence[Any]


#: The executor's function: loads the model where it is to run, and answers each chunk,
#: in any order. An answer is None if each worker that got the item has ended.
Execute = Callable[
    [Callable[[], Answerer], Iterator[Chunk]], Iterator[tuple[Chunk, Sequence[Any]]]
]


@dataclass(frozen=True)
class PartWritten(Event):
    """A part whose answers are written."""

    part: FilePart
    #: Texts or frames.
    count: int
    remarks: Remarks = Remarks()
    #: Texts of a file without a result, or 1 if there is none of the file.
    failed: int = 0

    @property
    def size(self) -> int:
        return self.count


@dataclass(kw_only=True)
class BulkJob(ABC):
    """A bulk job: the work on files, and where the results go."""

    unit: ClassVar[str]
    kind: ClassVar[SourceKind]
    store: Store
    model: Model
    cache: Path

    @abstractmethod
    def check(self, sources: Sequence[Source]) -> None:
        """Raises ClientError where nothing can come of it."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Describe what results depend on beside the files."""

    @abstractmethod
    def name_output(self, source: Source) -> Path:
        """Name the output of a file, below the results."""

    @abstractmethod
    def load(self) -> Callable[[], Answerer]:
        """The function that loads the model. It goes to every worker."""

    @abstractmethod
    def read(self, sources: Sequence[Source], kept: set[str]) -> Iterator[Chunk]:
        """The content of files; `kept` are the names that an unfinished run has left."""

    @abstractmethod
    def write(self, chunk: Chunk, answers: Sequence[Any]) -> Iterator[PartWritten]:
        """Writes the answers, and the results of files that end with them. Runs in several
        threads."""


@dataclass(frozen=True)
class Callbacks:
    """Whom a run tells of its progress, and of what is wrong or in doubt, a line each."""

    progress: Report
    error: Callable[[str], None]
    warning: Callable[[str], None]


@dataclass
class RunTotals:
    """The numbers of a run."""

    #: Results that were there before.
    skipped: int
    #: Texts or frames.
    count: int = 0
    #: Texts without a result, and files without one.
    failed: int = 0


def run(
    job: BulkJob,
    sources: Sequence[Source],
    execute: Execute,
    callbacks: Callbacks,
    *,
    is_overwrite: bool = False,
) -> RunTotals:
    """Writes the missing results. Raises ClientError; what is done stays."""
    named = _name_results(job, sources)
    store = job.store
    with store.lock() as check:
        if is_overwrite:
            store.remove([*named, *store.list_files(KEPT)])
        changed_ns = store.list_files()
        _check_options(job)
        errors = [*_look_back(named, changed_ns)]
        totals = RunTotals(len(named.keys() & changed_ns), failed=len(errors))
        for line in errors:
            callbacks.error(line)
        missing = [source for name, source in named.items() if name not in changed_ns]
        whole = sum(source.size_bytes for source in missing) or 1
        behind = 0.0
        chunks = execute(job.load(), job.read(missing, set(changed_ns)))
        for report in _write_all(job, chunks, check):
            behind += report.part.share * report.part.source.size_bytes
            callbacks.progress(report, min(1.0, behind / whole))
            totals.count += report.count
            totals.failed += report.failed
            for line in report.remarks.errors:
                callbacks.error(line)
            for line in report.remarks.warnings:
                callbacks.warning(line)
        check()
        store.remove(store.list_files(KEPT))
        return totals


def _name_results(job: BulkJob, sources: Sequence[Source]) -> dict[str, Source]:
    """The sources by the names of their results. Raises ClientError."""
    for source in sources:
        try:
            source.name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{source.name!r}: the name is not in UTF-8") from error
    files = name_files(sources, job.name_output)
    named = {path.as_posix(): sources[place] for path, (place,) in files.items()}
    results = {job.store.locate(name) for name in named}
    kept = {
        name: source
        for name, source in named.items()
        if (source.url or str(source.path.resolve())) not in results
    }
    if not kept:
        raise OutputError(f"{job.store.locate()}: nothing there is a source")
    return kept


def _check_options(job: BulkJob) -> None:
    """Raises OutputError if an unfinished run has other options."""
    wanted = json.dumps(job.describe(), sort_keys=True, default=str).encode()
    known = job.store.read(_OPTIONS)
    if known not in (None, wanted):
        raise OutputError(
            f"{job.store.locate()}: a run with other options was begun there; repeat its "
            "command, or begin again with --overwrite"
        )
    with job.store.create(_OPTIONS) as file:
        file.write(wanted)


def _look_back(
    named: Mapping[str, Source], changed_ns: Mapping[str, int]
) -> Iterator[str]:
    """A line for each thing that is wrong with the results that are there."""
    if _FAILED in changed_ns:
        yield "an earlier, unfinished run has left texts without a result"
    for name, source in named.items():
        # Object stores know whole seconds.
        if source.modified_ns // 10**9 > changed_ns.get(name, sys.maxsize) // 10**9:
            yield (
                f"{source.name} has changed since {name} was written; remove that file to "
                "have it written again"
            )


def _write_all(
    job: BulkJob,
    chunks: Iterator[tuple[Chunk, Sequence[Any]]],
    check: Callable[[], None],
) -> Iterator[PartWritten]:
    """Writes several chunks at once. `check` raises OutputError if another run writes there."""

    def write(chunk: Chunk, answers: Sequence[Any]) -> list[PartWritten]:
        check()
        reports = [*job.write(chunk, answers)]
        if any(report.failed for report in reports):
            with job.store.create(_FAILED):
                pass
        return reports

    written: deque[Future[list[PartWritten]]] = deque()
    with ThreadPoolExecutor(_WRITTEN_AT_ONCE) as pool:
        for chunk, answers in chunks:
            written.append(pool.submit(write, chunk, answers))
            while written and (
                written[0].done() or len(written) > 2 * _WRITTEN_AT_ONCE
            ):
                yield from written.popleft().result()
        for future in written:
            yield from future.result()
