"""Runs a job over many files in bounded memory. Threads send the requests, a journal of events
makes the job resumable, and each result is written as soon as it is complete.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice, takewhile
from multiprocessing.pool import AsyncResult, ThreadPool
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from clients.errors import OutputError, explain_disk
from clients.files import OutputPlan, Source
from contract import durable

#: The most items of a pack, however little they count.
_MOST_ITEMS = 4096
#: Seconds between two checks of a pending answer.
LOOK_S = 0.5


@dataclass(frozen=True)
class Event:
    """An event of a job, recorded in its journal."""

    # Another version's answer would be an end.
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    #: The index of the file among the job's sources.
    source: int

    @property
    def size(self) -> int:
        """The number of frames, texts or documents that this event completes."""
        return 0


@dataclass(frozen=True)
class Tick(Event):
    """A progress update, which is not recorded."""


@dataclass(frozen=True)
class End(Event):
    """The end of a file, with the error and its place if the file is broken."""

    error: str | None = None


@dataclass(frozen=True)
class Done:
    """The work done so far."""

    #: The number of frames, texts or documents, by file.
    answered: Counter[int] = field(default_factory=Counter)
    ended: dict[int, End] = field(default_factory=dict)


@dataclass(frozen=True)
class Remarks:
    """The errors and warnings of a run, one line each, and the files that it has written."""

    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    written: Sequence[Path] = ()


#: A callback for each event, with the share of all files' bytes processed so far.
Report = Callable[[Event, float], None]
#: Everything that the answers depend on.
Origin = Mapping[str, Any]

Item = TypeVar("Item")
Question = TypeVar("Question")


class Journal:
    """The record of a job, which survives a kill: a line with the origin, then one for each
    answer and each end. A later run continues after the last line that it can read."""

    def __init__(
        self,
        path: Path,
        origin: Origin,
        events: TypeAdapter[Any],
        *,
        is_restart: bool = False,
    ) -> None:
        """Open or create the journal; `events` parses a line. Raises OutputError if it cannot
        be written, another run writes it, or it has another origin, unless `is_restart`."""
        self.path = path
        #: The work that the journal records.
        self.done = Done()
        #: Whether it had no origin yet.
        self.is_new = False
        self._events = events
        self._starts: dict[int, int] = {}
        with explain_disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._log = durable.AppendLog(path)
            try:
                if not durable.lock_at(path, self._log):
                    raise OutputError(f"{path}: another run is writing it")
                self._recover(json.loads(json.dumps(origin)), is_restart)
            except BaseException:
                self._log.close()
                raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        with explain_disk(self.path), closing(self._log):
            self._log.sync()

    def append(self, event: Event) -> None:
        """Write an event before returning."""
        with explain_disk(self.path):
            start = self._log.append_lines([asdict(event)])
        self._note(event, start)

    def read(self, source: int) -> Iterator[Any]:
        """Yield the events of a file, if the journal has each file's events together."""
        if source in self._starts:
            events = self.read_all(self._starts[source])
            yield from takewhile(lambda event: event.source == source, events)

    def read_all(self, start: int | None = None) -> Iterator[Any]:
        """Yield the events of all files, or those from an offset in the journal."""
        with explain_disk(self.path):
            lines = durable.read_lines(self.path, start or 0)
            for _, content in islice(lines, start is None, None):
                yield self._events.validate_python(content)

    def remove(self) -> None:
        with explain_disk(self.path):
            self.path.unlink()

    def _recover(self, origin: Any, is_restart: bool) -> None:
        with self.path.open("rb") as file:
            first = file.readline()
        is_torn = not first.endswith(b"\n") and first[:2] in (b"", b"{", b'{"')
        lines = durable.read_lines(self.path)
        end, found = next(lines, (0, None))
        if found != origin and not is_torn:
            known = found if isinstance(found, dict) else {}
            changed = [key for key in origin if known.get(key) != origin[key]]
            if not is_restart:
                raise OutputError(
                    f"{self.path} was started with other options or files "
                    f"({', '.join(changed) or 'by another version'}): use the same ones "
                    "again, or --overwrite to start over"
                )
            end = 0
        if end:
            with suppress(ValidationError):
                for next_end, content in lines:
                    self._note(self._events.validate_python(content), end)
                    end = next_end
        self._log.truncate(end)
        self.is_new = end == 0
        if self.is_new:
            self._log.append_lines([origin])
            self._log.sync()

    def _note(self, event: Event, start: int) -> None:
        self._starts.setdefault(event.source, start)
        self.done.answered[event.source] += event.size
        if isinstance(event, End):
            self.done.ended[event.source] = event


def pack(
    items: Iterable[Item],
    measure: Callable[[Item], tuple[int, int]],
    most_count: int,
    most_size: int,
) -> Iterator[list[Item]]:
    """Group consecutive items into packs. `measure` returns the count and size of an item. A
    pack exceeds neither maximum, unless it is a single item."""
    packed: list[Item] = []
    count = size = 0
    for item in items:
        item_count, item_size = measure(item)
        if packed and (count + item_count > most_count or size + item_size > most_size):
            yield packed
            packed, count, size = [], 0, 0
        packed.append(item)
        count, size = count + item_count, size + item_size
        if count >= most_count or len(packed) >= max(_MOST_ITEMS, most_count):
            yield packed
            packed, count, size = [], 0, 0
    if packed:
        yield packed


def answer_in_order(
    sources: Sequence[Source],
    done: Done,
    report: Report,
    *,
    read: Callable[[int], Iterator[tuple[Question | End, float]]],
    ask: Callable[[Question], Event],
    in_flight: int,
) -> None:
    """Ask the questions of the unfinished files, `in_flight` at a time, and report the answers
    and ends in order. `read` yields the questions of the file with this index, each with the
    share of the file before it. Exceptions of these functions propagate."""
    waiting: deque[tuple[AsyncResult[Event], float]] = deque()

    def read_all() -> Iterator[tuple[Question | End, float]]:
        """Yield each question with the share of all files' bytes before it."""
        total = sum(source.size_bytes for source in sources) or 1
        behind = 0
        for number, source in enumerate(sources):
            for found, part in () if number in done.ended else read(number):
                yield found, (behind + part * source.size_bytes) / total
            behind += source.size_bytes

    def answer(found: Question | End) -> Event:
        return found if isinstance(found, End) else ask(found)

    def tell() -> None:
        answered, share = waiting.popleft()
        # Another thread may receive Ctrl-C's signal: wake up regularly to notice it.
        while not answered.ready():
            answered.wait(LOOK_S)
        report(answered.get(), share)

    # The pool's threads are daemons: a run that stops does not wait for answers.
    with ThreadPool(in_flight) as pool:
        for found, share in read_all():
            waiting.append((pool.apply_async(answer, (found,)), share))
            # Half of the questions wait for a thread, or behind a slow answer.
            while waiting and (waiting[0][0].ready() or len(waiting) == 2 * in_flight):
                tell()
        while waiting:
            tell()


@dataclass(frozen=True, kw_only=True)
class FileJob(ABC):
    """A bulk job: the work, its sources and its outputs."""

    sources: Sequence[Source]
    plan: OutputPlan
    #: Whether to replace existing files, and another job's journal.
    is_overwrite: bool = False

    #: The plural noun of its progress bar, such as "frames".
    unit: ClassVar[str]
    #: Parses a line of the journal.
    events: ClassVar[TypeAdapter[Any]]

    @abstractmethod
    def check(self) -> None:
        """Raise ClientError if the job cannot succeed."""

    @abstractmethod
    def describe(self) -> Origin:
        """Return everything besides the files that the answers depend on."""

    @abstractmethod
    def run(self, report: Report, journal: Journal) -> object:
        """Do the work that the journal lacks. Raises ClientError."""

    @abstractmethod
    def publish(self, journal: Journal, end: Any) -> Remarks:
        """Write the result whose last source has this end; may be called again."""


def run_job(job: FileJob, report: Report) -> Remarks:
    """Do the missing work, write all files and remove the journal. Returns a remark for each
    broken file and each loss. Raises ClientError, in which case the journal remains."""
    if not job.plan.journal.exists():
        _check_outputs(job)
    job.check()
    files = [
        [source.name, source.size_bytes, source.modified_ns] for source in job.sources
    ]
    with Journal(
        job.plan.journal,
        {**job.describe(), "files": files},
        job.events,
        is_restart=job.is_overwrite,
    ) as journal:
        if journal.is_new:
            try:
                _check_outputs(job)
            except OutputError:  # another run has ended meanwhile
                journal.remove()
                raise
        ended = journal.done.ended
        remarks = {number: job.publish(journal, end) for number, end in ended.items()}

        def write(event: Event, share: float) -> None:
            if not isinstance(event, Tick):
                journal.append(event)
            if isinstance(event, End):
                remarks[event.source] = job.publish(journal, event)
            report(event, share)

        job.run(write, journal)
        journal.remove()
        broken = [end.error for _, end in sorted(ended.items()) if end.error]
        said = [each for _, each in sorted(remarks.items())]
        errors = [*broken, *(line for each in said for line in each.errors)]
        warnings = [line for each in said for line in each.warnings]
        written = [path for each in said for path in each.written]
        return Remarks(errors, warnings, written)


def _check_outputs(job: FileJob) -> None:
    for file in job.plan.files:
        with explain_disk(file):
            if file.exists() and not job.is_overwrite:
                raise OutputError(f"{file} already exists: --overwrite replaces it")
