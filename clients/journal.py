"""The events of a run, and a file of them that survives a kill: it continues after its last
complete line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clients.errors import OutputError, explain_disk
from contract import durable


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


#: Told of each answer and end, with the share of all files' bytes that is done.
Report = Callable[[Event, float], None]


#: Everything on which answers depend.
Origin = Mapping[str, Any]


class Journal:
    """A line with what was asked for, then a line for each answer and each end."""

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
        self._events = events
        self._starts: dict[int, int] = {}
        self._errors: dict[int, str] = {}
        self._counts: Counter[int] = Counter()
        self._ended: set[int] = set()
        self._log = _open(path)
        try:
            with explain_disk(path):
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
        """The items that an earlier run has answered."""
        return Done(dict(self._counts), frozenset(self._ended))

    @property
    def errors(self) -> Mapping[int, str]:
        """The faults of broken files."""
        return self._errors

    def append(self, event: Event) -> None:
        """Writes an event before it returns."""
        self._note(event, self._write(asdict(event)))

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
        end = 0
        lines = durable.read_lines(self.path)
        first_end, found = next(lines, (0, None))
        if first_end and found != origin and not is_restart:
            raise OutputError(self._compare(found, origin))
        if first_end and found == origin:
            end = first_end
            for next_end, content in lines:
                self._note(self._events.validate_python(content), end)
                end = next_end
        self._log.truncate(end)
        if end == 0:
            self._write(origin)
            self._log.sync()

    def _compare(self, old: Any, new: Origin) -> str:
        changed = [
            key for key in new if not isinstance(old, dict) or old.get(key) != new[key]
        ]
        return (
            f"{self.path} was begun with other options or files "
            f"({', '.join(changed) or 'of another version'}): use the same ones again, or "
            "--overwrite to begin anew"
        )

    def _note(self, event: Event, start: int) -> None:
        self._starts.setdefault(event.source, start)
        if isinstance(event, AnswerEvent):
            self._counts[event.source] += event.size
        elif isinstance(event, End):
            self._ended.add(event.source)
            if event.error:
                self._errors[event.source] = event.error

    def _write(self, content: Any) -> int:
        """Returns where the line begins."""
        with explain_disk(self.path):
            return self._log.append_lines([content])


def _open(path: Path) -> durable.AppendLog:
    with explain_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        log = durable.AppendLog(path)
        if durable.try_lock(log.fileno()):
            return log
        log.close()
    raise OutputError(f"{path}: another run writes it")
