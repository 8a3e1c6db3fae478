"""A file of answers that survives a kill: it continues after its last complete line."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from clients.captioner import Answer, Done, End
from clients.errors import OutputError

#: After so long at most, lines are on the disk itself and survive a power cut.
_SYNC_EVERY_S = 1.0

_EVENT: TypeAdapter[Answer | End] = TypeAdapter(Answer | End)

Origin = Mapping[str, Any]


class Journal:
    """A line with what was asked for, then a line for each answer and each end."""

    def __init__(self, path: Path, origin: Origin, *, is_restart: bool = False) -> None:
        """Opens or begins it. Raises OutputError if it cannot be written, if another run
        writes it, or if it was begun for something else and this is no restart."""
        self.path = path
        self._starts: dict[int, int] = {}
        self._errors: dict[int, str] = {}
        self._counts: Counter[int] = Counter()
        self._ended: set[int] = set()
        self._synced_at = time.monotonic()
        self._file = _open(path)
        try:
            self._recover(json.loads(json.dumps(origin)), is_restart)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    @property
    def done(self) -> Done:
        """What an earlier run has answered."""
        return Done(dict(self._counts), frozenset(self._ended))

    @property
    def errors(self) -> list[str]:
        return [self._errors[video] for video in sorted(self._errors)]

    def append(self, event: Answer | End) -> None:
        """Writes an event before it returns."""
        self._note(event, self._file.seek(0, os.SEEK_END))
        self._write(asdict(event))

    def read(self, video: int) -> Iterator[Answer | End]:
        if video not in self._starts:
            return
        with self.path.open("rb") as file:
            file.seek(self._starts[video])
            for line in file:
                event = _EVENT.validate_json(line)
                if event.video != video:
                    return
                yield event

    def remove(self) -> None:
        self.path.unlink()

    def _recover(self, origin: Any, is_restart: bool) -> None:
        lines = _read_whole_lines(self._file)
        found = next(lines, None)
        if found is not None and found[1] != origin and not is_restart:
            raise OutputError(self._compare(found[1], origin))
        end = 0
        if found is not None and found[1] == origin:
            end = found[0]
            for next_end, content in lines:
                self._note(_EVENT.validate_python(content), end)
                end = next_end
        self._file.truncate(end)
        if end == 0:
            self._write(origin)
            os.fsync(self._file.fileno())

    def _compare(self, old: Any, new: Origin) -> str:
        changed = [
            key for key in new if not isinstance(old, dict) or old.get(key) != new[key]
        ]
        return (
            f"{self.path} was begun with other options or videos "
            f"({', '.join(changed) or 'of another version'}): use the same ones again, or "
            "--overwrite to begin anew"
        )

    def _note(self, event: Answer | End, start: int) -> None:
        self._starts.setdefault(event.video, start)
        if isinstance(event, Answer):
            self._counts[event.video] += len(event.captions)
            return
        self._ended.add(event.video)
        if event.error:
            self._errors[event.video] = event.error

    def _write(self, content: Any) -> None:
        line = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        self._file.seek(0, os.SEEK_END)
        self._file.write(line.encode() + b"\n")
        if time.monotonic() - self._synced_at >= _SYNC_EVERY_S:
            os.fsync(self._file.fileno())
            self._synced_at = time.monotonic()


def _open(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer, so that a line has left the process when it is written.
        file = open(path, "a+b", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise OutputError(f"{path}: another run writes it") from error
    return file


def _read_whole_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Each line's end and content, up to the first incomplete one."""
    file.seek(0)
    end = 0
    for line in file:
        end += len(line)
        if not line.endswith(b"\n"):
            return
        try:
            content = json.loads(line)
        except ValueError:
            return
        yield end, content
