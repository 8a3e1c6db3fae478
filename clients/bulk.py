"""Runs many files as one resumable job, in bounded memory: its events, their journal, and the
threads that ask. Each result is written as soon as it can be.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter

from clients.errors import OutputError, explain_disk
from clients.files import OutputPlan, Source
from contract import durable

#: The most items of a pack that do not count.
_MOST_ITEMS = 4096


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
class AnswerEvent(Event):
    """The answer to one request."""


@dataclass(frozen=True)
class End(Event):
    """The end of a file, or the place where it is broken."""

    error: str | None = None


@dataclass(frozen=True)
class Done:
    """The work of an earlier run."""

    #: Frames or texts by file.
    answered: Mapping[int, int] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Counts:
    """The counts of a run, without earlier ones."""

    #: Frames, texts or documents.
    answered: int
    requests: int
    seconds: float


@dataclass(frozen=True)
class Remarks:
    """Remarks on files, a line each."""

    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()


#: Told of each answer and end, with the share of all files' bytes that is done.
Report = Callable[[Event, float], None]
#: Everything on which answers depend.
Origin = Mapping[str, Any]

Item = TypeVar("Item")
Question = TypeVar("Question")
Answered = TypeVar("Answered", bound=AnswerEvent)


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
        #: The faults of broken files.
        self.errors: dict[int, str] = {}
        self._events = events
        self._starts: dict[int, int] = {}
        self._counts: Counter[int] = Counter()
        self._ended: set[int] = set()
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

    @property
    def done(self) -> Done:
        """The items that are answered so far."""
        return Done(dict(self._counts), frozenset(self._ended))

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
        if isinstance(event, AnswerEvent):
            self._counts[event.source] += event.size
        elif isinstance(event, End):
            self._ended.add(event.source)
            if event.error:
                self.errors[event.source] = event.error


def walk(
    sources: Sequence[Source],
    done: Done,
    read: Callable[[int, Source], Iterator[tuple[Item, float]]],
) -> Iterator[tuple[Item, float]]:
    """Yield the items that `read` finds in each file that is not done, with the share of
    all files' bytes before it instead of the share of its own file."""
    total = sum(source.size_bytes for source in sources) or 1
    behind = 0
    for number, source in enumerate(sources):
        if number not in done.ended:
            for item, part in read(number, source):
                yield item, (behind + part * source.size_bytes) / total
        behind += source.size_bytes


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


class Pipeline(Generic[Question, Answered]):
    """A thread that reads, ahead by as many questions as there are slots, and others that
    send. Answers come in order."""

    def __init__(
        self,
        events: Iterator[tuple[Question | End, float]],
        ask: Callable[[Question], Answered],
        in_flight: int,
        stopping: threading.Event,
    ) -> None:
        self._events = events
        self._ask = ask
        # Half of the slots are for those that wait for a slow one before them or for a
        # sender.
        self._slots = threading.Semaphore(2 * in_flight)
        self._stopping = stopping
        self._ordered: SimpleQueue[
            tuple[Future[Answered] | End, float] | Exception | None
        ] = SimpleQueue()
        self._jobs: SimpleQueue[tuple[Question, Future[Answered]] | None] = (
            SimpleQueue()
        )
        # Daemons: a run that stops does not wait for answers.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._senders = [
            threading.Thread(target=self._send, daemon=True) for _ in range(in_flight)
        ]

    def follow(self, report: Report) -> Counts:
        """Reports all answers and ends. Raises what asking and `report` raise."""
        began = time.perf_counter()
        answered = requests = 0
        with closing(self._run()) as events:
            for event, share in events:
                if isinstance(event, AnswerEvent):
                    answered += event.size
                    requests += 1
                report(event, share)
        return Counts(answered, requests, time.perf_counter() - began)

    def _run(self) -> Generator[tuple[Answered | End, float]]:
        """Answers and ends in order, each with its share."""
        for thread in (self._reader, *self._senders):
            thread.start()
        try:
            while (item := self._ordered.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                event, share = item
                if isinstance(event, End):
                    yield event, share
                    continue
                answer = event.result()
                self._slots.release()
                yield answer, share
        finally:
            self._stopping.set()
            self._slots.release()
            self._reader.join()
            for _ in self._senders:
                self._jobs.put(None)

    def _read(self) -> None:
        try:
            for event, share in self._events:
                if self._stopping.is_set():
                    break
                if isinstance(event, End):
                    self._ordered.put((event, share))
                    continue
                self._slots.acquire()
                future: Future[Answered] = Future()
                self._jobs.put((event, future))
                self._ordered.put((future, share))
        except Exception as error:  # of any type: it is raised where it is waited for
            self._ordered.put(error)
        self._ordered.put(None)

    def _send(self) -> None:
        while (job := self._jobs.get()) is not None:
            question, future = job
            if self._stopping.is_set():
                continue
            try:
                answer = self._ask(question)
            except Exception as error:  # as above
                future.set_exception(error)
            else:
                future.set_result(answer)
            del job, question, future  # a frame's pixels


@dataclass(frozen=True, kw_only=True)
class FileJob(ABC):
    """A bulk job: the work, its files, and where the results go."""

    sources: Sequence[Source]
    plan: OutputPlan
    #: Files that are there are replaced, and so is another job's journal.
    is_overwrite: bool = False

    #: Reads a line of the journal.
    events: ClassVar[TypeAdapter[Any]]

    @abstractmethod
    def check(self) -> None:
        """Raises ClientError where nothing can come of it."""

    @abstractmethod
    def describe(self) -> Origin:
        """Describe what the answers depend on beside the files."""

    @abstractmethod
    def run(self, report: Report, journal: Journal) -> Counts:
        """Does what the journal does not have. Raises ClientError."""

    @abstractmethod
    def publish(self, journal: Journal, ended: int) -> Remarks:
        """Writes the result whose last source this is; may be called again."""


def run_job(job: FileJob, report: Report) -> tuple[Counts, Remarks]:
    """Does what is missing, writes all files. Returns a sentence for each file that is broken
    and for what a file has lost. Raises ClientError, keeps the journal."""
    existing = job.plan.find_existing()
    if existing and not job.is_overwrite and not job.plan.journal.exists():
        raise OutputError(f"{existing[0]} is there already: --overwrite replaces it")
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
        remarks = {ended: job.publish(journal, ended) for ended in journal.done.ended}

        def write(event: Event, share: float) -> None:
            if not isinstance(event, Tick):
                journal.append(event)
            if isinstance(event, End):
                remarks[event.source] = job.publish(journal, event.source)
            report(event, share)

        counts = job.run(write, journal)
        journal.remove()
        broken = [error for _, error in sorted(journal.errors.items())]
        said = [each for _, each in sorted(remarks.items())]
        errors = [*broken, *(line for each in said for line in each.errors)]
        warnings = [line for each in said for line in each.warnings]
        return counts, Remarks(errors, warnings)
