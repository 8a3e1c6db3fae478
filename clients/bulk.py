"""Runs many files as one resumable job, in bounded memory: its events, their journal, and the
threads that ask. Each result is written as soon as it can be.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice, takewhile
from multiprocessing.pool import AsyncResult, ThreadPool
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter

from clients.errors import OutputError, explain_disk
from clients.files import OutputPlan, Source
from contract import durable

#: The most items of a pack that do not count.
_MOST_ITEMS = 4096
#: Seconds between two looks at an answer that is waited for.
_LOOK_S = 0.5


@dataclass(frozen=True)
class Event:
    """Something that a journal keeps."""

    #: The file's place among the files of the run.
    source: int

    @property
    def size(self) -> int:
        """The number of frames, texts or documents that are done with it."""
        return 0


@dataclass(frozen=True)
class Tick(Event):
    """Only moves the bar: no journal keeps it."""


@dataclass(frozen=True)
class End(Event):
    """The end of a file, or the place where it is broken."""

    error: str | None = None


@dataclass(frozen=True)
class Done:
    """The work that is done."""

    #: Frames or texts by file.
    answered: Counter[int] = field(default_factory=Counter)
    ended: dict[int, End] = field(default_factory=dict)


@dataclass(frozen=True)
class Remarks:
    """Remarks on files, a line each, and the files that exist now."""

    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    written: Sequence[Path] = ()


#: Told of each answer and end, with the share of all files' bytes that is done.
Report = Callable[[Event, float], None]
#: Everything on which answers depend.
Origin = Mapping[str, Any]

Item = TypeVar("Item")
Question = TypeVar("Question")


class Journal:
    """A file that survives a kill: a line with what was asked for, then a line for each answer
    and each end. It continues after its last complete line."""

    def __init__(
        self,
        path: Path,
        origin: Origin,
        events: TypeAdapter[Any],
        *,
        is_restart: bool = False,
    ) -> None:
        """Opens or begins it; `events` reads a line. Raises OutputError if it cannot be
        written, if another run writes it, or if it was begun for something else and this
        is no restart."""
        self.path = path
        #: The items that are answered so far.
        self.done = Done()
        self._events = events
        self._starts: dict[int, int] = {}
        with explain_disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._log = durable.AppendLog(path)
            try:
                if not durable.try_lock(self._log.fileno()):
                    raise OutputError(f"{path}: another run writes it")
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
        """Writes an event before it returns."""
        with explain_disk(self.path):
            start = self._log.append_lines([asdict(event)])
        self._note(event, start)

    def read(self, source: int) -> Iterator[Any]:
        """The events of a file, where those of one file follow each other."""
        if source in self._starts:
            events = self.read_all(self._starts[source])
            yield from takewhile(lambda event: event.source == source, events)

    def read_all(self, start: int | None = None) -> Iterator[Any]:
        """The events of all files."""
        with explain_disk(self.path):
            lines = durable.read_lines(self.path, start or 0)
            for _, content in islice(lines, start is None, None):
                yield self._events.validate_python(content)

    def remove(self) -> None:
        with explain_disk(self.path):
            self.path.unlink()

    def _recover(self, origin: Any, is_restart: bool) -> None:
        lines = durable.read_lines(self.path)
        end, found = next(lines, (0, None))
        if end and found != origin:
            known = found if isinstance(found, dict) else {}
            changed = [key for key in origin if known.get(key) != origin[key]]
            if not is_restart:
                raise OutputError(
                    f"{self.path} was begun with other options or files "
                    f"({', '.join(changed) or 'of another version'}): use the same ones "
                    "again, or --overwrite to begin anew"
                )
            end = 0
        if end:
            for next_end, content in lines:
                self._note(self._events.validate_python(content), end)
                end = next_end
        self._log.truncate(end)
        if end == 0:
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
    """Packs of items that follow each other. `measure` says how many an item counts and its
    size. A pack has no more of both, unless it has one item only."""
    packed: list[Item] = []
    count = size = 0
    for item in items:
        item_count, item_size = measure(item)
        is_over = count + item_count > most_count or size + item_size > most_size
        if packed and is_over:
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
    """Asks what is found in the files that are not done, `in_flight` questions at a time, and
    reports the answers and ends in order. `read` finds what to ask in the file of this number,
    with the share of the file before it. Raises what these functions raise."""
    waiting: deque[tuple[AsyncResult[Event], float]] = deque()

    def read_all() -> Iterator[tuple[Question | End, float]]:
        """Yield what to ask, each with the share of all files' bytes before it."""
        total, behind = sum(source.size_bytes for source in sources) or 1, 0
        for number, source in enumerate(sources):
            for found, part in () if number in done.ended else read(number):
                yield found, (behind + part * source.size_bytes) / total
            behind += source.size_bytes

    def answer(found: Question | End) -> Event:
        return found if isinstance(found, End) else ask(found)

    def tell() -> None:
        answered, share = waiting.popleft()
        # The system may interrupt another thread: this one must not sleep through Ctrl-C.
        while not answered.ready():
            answered.wait(_LOOK_S)
        report(answered.get(), share)

    # Its threads are daemons: a run that stops does not wait for answers.
    with ThreadPool(in_flight) as pool:
        for found, share in read_all():
            waiting.append((pool.apply_async(answer, (found,)), share))
            # Half of them wait to be asked, or for a slow one before them.
            while waiting and (waiting[0][0].ready() or len(waiting) == 2 * in_flight):
                tell()
        while waiting:
            tell()


@dataclass(frozen=True, kw_only=True)
class FileJob(ABC):
    """A bulk job: the work, its files, and where the results go."""

    sources: Sequence[Source]
    plan: OutputPlan
    #: Whether to replace existing files, and another job's journal.
    is_overwrite: bool = False

    #: The things that it counts.
    unit: ClassVar[str]
    #: Reads a line of the journal.
    events: ClassVar[TypeAdapter[Any]]

    @abstractmethod
    def check(self) -> None:
        """Raises ClientError where nothing can come of it."""

    @abstractmethod
    def describe(self) -> Origin:
        """Describe what the answers depend on beside the files."""

    @abstractmethod
    def run(self, report: Report, journal: Journal) -> object:
        """Does what the journal does not have. Raises ClientError."""

    @abstractmethod
    def publish(self, journal: Journal, end: Any) -> Remarks:
        """Writes the result whose last source has this end; may be called again."""


def run_job(job: FileJob, report: Report) -> Remarks:
    """Does what is missing, writes all files. Returns a sentence for each file that is broken
    and for what a file has lost. Raises ClientError, keeps the journal."""
    existing = next(filter(Path.exists, job.plan.files), None)
    if existing and not job.is_overwrite and not job.plan.journal.exists():
        raise OutputError(f"{existing} is there already: --overwrite replaces it")
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
