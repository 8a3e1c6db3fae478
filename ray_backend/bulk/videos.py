"""Videos: each is captioned as a whole, by the worker that reads it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from catalog import Model, checkpoint
from clients.bulk import Event, Remarks
from clients.captioner import CaptionAnswer, Captioner, Sending, VideoEnd, check_decoder
from clients.captions import SubtitleFormat, render
from clients.errors import ClientError, InputError, ServerError
from clients.frames import FrameSize, VideoOptions
from clients.sources import VIDEOS, Source
from handlers.base import Row, TaskError, TaskHandler
from ray_backend.bulk.job import BulkJob, Chunk, FilePart, PartWritten
from ray_backend.bulk.storage import Store, fetch
from ray_backend.replica import load_handler

#: While one batch is in the model, the next one is read.
_SENDING = Sending(requests_in_flight=2)
_DEADLY = "each worker that captioned this video has ended"


@dataclass(frozen=True)
class CaptionedVideo:
    """The captions of a video, as far as it could be read."""

    events: tuple[CaptionAnswer | VideoEnd, ...] = ()
    error: str | None = None
    #: The machine that does not see the file.
    blind: str | None = None


@dataclass(kw_only=True)
class BulkCaptioning(BulkJob):
    """Captions videos."""

    store: Store
    #: In the size that the model takes unless another one is given.
    reading: VideoOptions
    is_full_size: bool
    format: SubtitleFormat
    model: Model
    cache: Path

    unit = "frames"
    kind = VIDEOS

    def check(self, sources: Sequence[Source]) -> None:
        check_decoder()

    def describe(self) -> Mapping[str, Any]:
        return {
            "every": asdict(self.reading.every),
            "is_full_size": self.is_full_size,
            "format": self.format,
            "model": (self.model.settings.model, self.model.compute_type),
        }

    def name_output(self, source: Source) -> Path:
        """`a.mp4` becomes `a.jsonl`, `a.srt` or `a.vtt`."""
        return source.relative.with_suffix(f".{self.format}")

    def load(self) -> Callable[[], VideoAnswerer]:
        model, cache, reading = self.model, self.cache, self.reading
        return partial(load_captioner, model, cache, reading, self.is_full_size)

    def read(self, sources: Sequence[Source], kept: set[str]) -> Iterator[Chunk]:
        """Only names: a video is read where it is captioned."""
        return (Chunk((FilePart(source),), [source]) for source in sources)

    def write(
        self, chunk: Chunk, answers: Sequence[CaptionedVideo | None]
    ) -> Iterator[PartWritten]:
        (part,), (answer,) = chunk.parts, answers
        source = part.source
        found = answer or CaptionedVideo(error=f"{source.name}: {_DEADLY}")
        if found.blind and not source.has_changed():
            raise ClientError(
                f"{found.blind} does not see {source.path.absolute()}: every machine must "
                "have the videos under the same path"
            )
        ends = [event.error for event in found.events if isinstance(event, VideoEnd)]
        errors = [error for error in (found.error, *ends) if error]
        count = sum(event.size for event in found.events)
        if count or not errors:
            with self.store.create(self.name_output(source).as_posix()) as file:
                pieces = render(self.format, source.name, found.events)
                file.writelines(piece.encode() for piece in pieces)
        yield PartWritten(0, part, count, Remarks(errors), len(errors))


def load_captioner(
    model: Model, cache: Path, reading: VideoOptions, is_full_size: bool
) -> VideoAnswerer:
    """Loads a model, in the process that is to run it."""
    handler = load_handler(model, cache)
    found = None if is_full_size else checkpoint.find_input_size(model)
    size = FrameSize(found.height, found.width) if found else None
    server = InProcess(handler)
    return VideoAnswerer(Captioner(server, replace(reading, size=size), _SENDING))


@dataclass(frozen=True)
class VideoAnswerer:
    """Captions videos."""

    captioner: Captioner

    def __call__(self, sources: Sequence[Source]) -> list[CaptionedVideo]:
        return [self._caption(source) for source in sources]

    def _caption(self, source: Source) -> CaptionedVideo:
        if not source.url and source.has_changed():
            error = f"{source.name} has changed meanwhile"
            return CaptionedVideo(error=error, blind=socket.gethostname())
        events: list[CaptionAnswer | VideoEnd] = []

        def keep(event: Event, _: float) -> None:
            if isinstance(event, CaptionAnswer | VideoEnd):
                events.append(event)

        try:
            with fetch(source) as copy:
                self.captioner.run([copy], keep)
        except InputError as error:
            return CaptionedVideo(error=str(error))
        except ClientError as error:
            return CaptionedVideo(error=f"{source.name}: {error}")
        return CaptionedVideo(tuple(events))


@dataclass(frozen=True)
class InProcess:
    """A model of this process as a captioner asks it. Safe to share among threads."""

    handler: TaskHandler[Any]
    url: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def caption(self, body: Sequence[bytes | memoryview], _: int) -> Sequence[str]:
        with self._turn:
            (result,) = self.handler.answer([Row(b"".join(body))]).results
        if isinstance(result, TaskError):
            raise ServerError(result.detail)
        captions: list[str] = result["captions"]
        return captions
