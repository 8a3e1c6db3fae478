"""One run: finds out what is missing, has it done, and gives each result its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from clients.errors import InputError, OutputError
from clients.events import Answer
from clients.events import Report as Tell
from clients.outputs import name_files
from clients.sources import Source
from ray_backend.bulk.manifest import NAME, Manifest, Record
from ray_backend.bulk.pieces import Finished, Report, Task

#: Files that are put together at once.
_ASSEMBLED_AT_ONCE = 4
#: Results that get their names at once.
_NAMED_AT_ONCE = 16

Taken = TypeVar("Taken")


class Machines(Protocol):
    """Whoever does the work."""

    def run(self, task: Task, groups: Sequence[tuple[Source, ...]]) -> Iterator[Report]:
        """Reads all groups and has each chunk done by a worker; in any order. Raises
        ClientError if that cannot be done at all."""

    def assemble(self, task: Task, source: Source, parts: int) -> Future[Finished]:
        """`Task.assemble`, elsewhere."""


@dataclass(frozen=True)
class Progress(Answer):
    """How many texts or frames are done with a piece."""

    count: int

    @property
    def size(self) -> int:
        return self.count


@dataclass(frozen=True)
class Outcome:
    """What has become of all files of a command, of this run and of earlier ones."""

    #: Files that were there already.
    skipped: int
    #: Texts or frames, of this run.
    count: int
    #: Those without a result and files without one, of this and earlier runs.
    failed: int


@dataclass
class _Parts:
    """The parts of a file that are answered."""

    done: set[int] = field(default_factory=set)
    total: int | None = None

    @property
    def are_complete(self) -> bool:
        return self.total is not None and len(self.done) == self.total


@dataclass(frozen=True)
class Listeners:
    """What is told of a run while it lasts."""

    progress: Tell
    #: What is wrong with a file, a line each.
    error: Callable[[str], None]
    #: What is in doubt in a file.
    warning: Callable[[str], None]


def run(
    task: Task,
    sources: Sequence[Source],
    machines: Machines,
    listeners: Listeners,
    *,
    is_overwrite: bool = False,
) -> Outcome:
    """Writes what is missing. Raises ClientError; what is done stays."""
    names = _plan(task, [s for s in sources if s.relative.name != NAME])
    workspace, store = task.workspace, task.workspace.store
    with workspace.open(task.describe(), is_restart=is_overwrite) as check:
        manifest = Manifest(store)
        if is_overwrite:
            manifest.forget(names.keys())
        store.remove_drafts()
        there = store.find(names.keys())
        missing = [source for name, source in names.items() if name not in there]
        work = _Work(task, machines, manifest, listeners, check)
        work.failed = _look_back(names, manifest, listeners)
        work.run(missing)
        check()
        manifest.settle()
        store.remove_drafts()
        return Outcome(len(there), work.count, work.failed)


def _look_back(
    names: Mapping[str, Source], manifest: Manifest, listeners: Listeners
) -> int:
    """What earlier runs have left undone in the files that are there."""
    failed = 0
    for name in names.keys() & manifest.records.keys():
        source, record = names[name], manifest.records[name]
        if record.errors:
            failed += record.errors
            listeners.error(
                f"{name}: {record.errors} have no result, since an earlier run"
            )
        was = record.source_bytes, record.source_modified_ns
        if was != (source.size_bytes, source.modified_ns):
            failed += 1
            listeners.error(
                f"{source.name} has changed since {name} was written; remove that file to "
                "have it written anew"
            )
    return failed


def _plan(task: Task, sources: Sequence[Source]) -> dict[str, Source]:
    """The sources by the names of their results. Raises ClientError."""
    for source in sources:
        try:
            source.name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{source.name!r}: the name is not in UTF-8") from error
    store = task.workspace.store
    named = name_files(sources, task.name_output)
    found = {path.as_posix(): sources[place] for path, (place,) in named.items()}
    results = {store.locate(name) for name in found}
    kept = {
        name: source
        for name, source in found.items()
        if (source.url or str(source.path.resolve())) not in results
    }
    if not kept:
        raise OutputError(f"{store.locate()}: nothing there is a source")
    return kept


@dataclass
class _Work:
    """What is under way."""

    task: Task
    machines: Machines
    manifest: Manifest
    listeners: Listeners
    #: Raises OutputError if another run writes there.
    check: Callable[[], None]
    count: int = 0
    failed: int = 0
    #: Bytes of all files to do, and of what is done.
    _total: int = 1
    _behind: float = 0.0
    _parts: dict[str, _Parts] = field(default_factory=lambda: defaultdict(_Parts))
    _assembled: set[Future[Finished]] = field(default_factory=set)
    _named: set[Future[None]] = field(default_factory=set)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_NAMED_AT_ONCE)
    )

    def run(self, missing: Sequence[Source]) -> None:
        """Has all of it done."""
        groups = list(self.task.group(missing))
        self._total = sum(source.size_bytes for source in missing) or 1
        with self._pool:
            for report in self.machines.run(self.task, groups) if groups else ():
                self.check()
                self._follow(report)
                self._collect(_ASSEMBLED_AT_ONCE, 2 * _NAMED_AT_ONCE)
            self._collect(1, 1)

    def _follow(self, report: Report) -> None:
        self.count += report.count
        self._behind += report.share * report.source.size_bytes
        self.listeners.progress(
            Progress(0, report.count), min(1.0, self._behind / self._total)
        )
        if report.finished:
            self._publish(report.finished, has_parts=False)
        else:
            self._await(report)

    def _await(self, report: Report) -> None:
        source, parts = report.source, self._parts[report.source.name]
        parts.done.add(report.part)
        if report.is_last:
            parts.total = report.part + 1
        if parts.are_complete:
            del self._parts[source.name]
            self._assembled.add(
                self.machines.assemble(self.task, source, len(parts.done))
            )

    def _collect(self, assembled: int, named: int) -> None:
        """Waits until fewer files than that are put together, and get their names."""
        for finished in _take(self._assembled, assembled):
            self._publish(finished, has_parts=True)
        _take(self._named, named)

    def _publish(self, finished: Finished, *, has_parts: bool) -> None:
        for line in finished.errors:
            self.listeners.error(line)
        for line in finished.warnings:
            self.listeners.warning(line)
        if finished.record is None or finished.draft is None:
            self.failed += 1
            return
        self.failed += finished.record.errors or bool(finished.errors)
        # An object store takes its time for each.
        parts_of = finished.source if has_parts else None
        self._named.add(
            self._pool.submit(self._name, finished.record, finished.draft, parts_of)
        )

    def _name(self, record: Record, draft: str, parts_of: Source | None) -> None:
        """The record comes first: a result that has its name has its record. Until then the
        parts stay, because whoever puts them together may have to begin again."""
        workspace = self.task.workspace
        self.manifest.append(record)
        workspace.store.rename(draft, record.output)
        if parts_of:
            workspace.remove_parts(parts_of)


def _take(futures: set[Future[Taken]], most: int) -> list[Taken]:
    """The results of those that are done, once fewer than `most` are not."""
    done = {future for future in futures if future.done()}
    while len(futures - done) >= most:
        done |= wait(futures - done, return_when=FIRST_COMPLETED).done
    futures -= done
    return [future.result() for future in done]
