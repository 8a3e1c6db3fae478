"""Videos: each is captioned as a whole, by the worker that reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from catalog import Model, checkpoint
from clients.captioner import Captioner, Captions, Sending, VideoEnd, check_decoder
from clients.errors import ClientError, InputError, ServerError
from clients.events import Event
from clients.frames import Reading, Size
from clients.sources import VIDEOS, Source
from clients.subtitles import Format, render
from handlers.base import Row, TaskError, TaskHandler
from ray_backend.bulk.ledger import Ledger
from ray_backend.bulk.pieces import Chunk, Finished, Piece, Report, make_record
from ray_backend.bulk.sources import fetch
from ray_backend.bulk.storage import Draft
from ray_backend.bulk.workspace import Workspace
from ray_backend.replica import load_handler

#: While one batch is in the model, the next one is read.
_SENDING = Sending(requests_in_flight=2)
_DEADLY = "each worker that captioned this video has ended"


@dataclass(frozen=True, kw_only=True)
class VideoTask:
    """Captions videos."""

    workspace: Workspace
    #: In the size that the model takes unless another one is given.
    reading: Reading
    is_full_size: bool
    kind: Format
    model: Model
    cache: Path

    unit = "frames"
    sources = VIDEOS

    def check(self, sources: Sequence[Source]) -> None:
        """As `Task.check`."""
        check_decoder()

    def describe(self) -> Mapping[str, Any]:
        """As `Task.describe`."""
        return {
            "every": asdict(self.reading.every),
            "is_full_size": self.is_full_size,
            "kind": self.kind,
            "model": (self.model.settings.model, self.model.compute_type),
        }

    def name_output(self, source: Source) -> Path:
        """`a.mp4` becomes `a.jsonl`, `a.srt` or `a.vtt`."""
        return source.relative.with_suffix(f".{self.kind}")

    def group(self, sources: Sequence[Source]) -> Iterator[tuple[Source, ...]]:
        """As `Task.group`."""
        return ((source,) for source in sources)

    def read(self, sources: Sequence[Source]) -> Iterator[Chunk]:
        """As `Task.read`. Frames are read where they are captioned."""
        return ((Piece(source),) for source in sources)

    def load(self) -> VideoWorker:
        """As `Task.load`."""
        handler = load_handler(self.model, self.cache)
        found = None if self.is_full_size else checkpoint.find_input_size(self.model)
        size = Size(found.height, found.width) if found else None
        reading = replace(self.reading, size=size)
        return VideoWorker(self, Captioner(InProcess(handler), reading, _SENDING))

    def assemble(self, source: Source, parts: int) -> Finished:
        """No video has parts."""
        raise NotImplementedError

    def write(
        self, source: Source, events: Sequence[Captions | VideoEnd], seconds: float
    ) -> Finished:
        """Writes the captions of a video, if there are any."""
        errors = [e.error for e in events if isinstance(e, VideoEnd) and e.error]
        count = sum(event.size for event in events)
        if errors and not count:
            return Finished(source, None, None, tuple(errors))
        draft = Draft(self.workspace.store, self.name_output(source).as_posix())
        with draft.open() as file:
            pieces = render(self.kind, source.name, events)
            file.writelines(piece.encode() for piece in pieces)
        record = make_record(
            self,
            source,
            draft,
            rows=count,
            errors=len(errors),
            warnings=0,
            seconds=round(seconds, 3),
        )
        return Finished(source, record, draft.name, tuple(errors))


@dataclass(frozen=True)
class VideoWorker:
    """Captions videos and writes the captions down."""

    task: VideoTask
    captioner: Captioner

    def __call__(self, chunk: Chunk) -> Iterator[Report]:
        """As `Worker`."""
        for piece in chunk:
            source = piece.source
            ledger = Ledger(self.task.workspace.find_ledger([source.name]))
            (finished,) = ledger.run(1, lambda *_, s=source: [self._caption(s)])
            finished = finished or _fail(source, f"{source.name}: {_DEADLY}")
            count = finished.record.rows if finished.record else 0
            yield Report(source, 0, True, 1.0, count, finished)

    def _caption(self, source: Source) -> Finished:
        began = time.monotonic()
        events: list[Captions | VideoEnd] = []

        def keep(event: Event, _: float) -> None:
            if isinstance(event, Captions | VideoEnd):
                events.append(event)

        try:
            with fetch(source) as copy:
                self.captioner.run([copy], keep)
        except InputError as error:
            return _fail(source, str(error))
        except ClientError as error:
            return _fail(source, f"{source.name}: {error}")
        return self.task.write(source, events, time.monotonic() - began)


@dataclass(frozen=True)
class InProcess:
    """A model of this process as a captioner asks it. Safe to share among threads."""

    handler: TaskHandler[Any]
    url: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def caption(self, body: Sequence[bytes | memoryview], _: int) -> Sequence[str]:
        """As `clients.captioner.Model.caption`."""
        with self._turn:
            (result,) = self.handler.answer([Row(b"".join(body))]).results
        if isinstance(result, TaskError):
            raise ServerError(result.detail)
        captions: list[str] = result["captions"]
        return captions


def _fail(source: Source, reason: str) -> Finished:
    return Finished(source, None, None, (reason,))
