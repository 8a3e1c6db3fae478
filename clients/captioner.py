"""Captions videos in order, in bounded memory: a thread decodes while others send."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from clients.bulk import AnswerEvent, Counts, Done, End, Event, Pipeline, Report, walk
from clients.errors import ClientError, MemoryLimitError, VideoError
from clients.files import VIDEOS, Source, find_sources
from clients.frames import Batch, Prebatch, VideoOptions, pack_frames
from clients.server import ApiClient

if TYPE_CHECKING:
    from clients.decoding import FrameReader


class CaptionModel(Protocol):
    """A model that captions frames."""

    @property
    def url(self) -> str:
        """The URL of the model; empty in this process."""

    def caption(
        self, body: Sequence[bytes | memoryview], frames: int, /
    ) -> Sequence[str]:
        """The caption of each frame of an array. Raises ServerError."""


class Mode(StrEnum):
    """The three ways to send a video."""

    STREAM_PREBATCH = "stream-prebatch"
    STREAM_SINGLE = "stream-single"
    SINGLE = "single"


@dataclass(frozen=True)
class Sending:
    """The manner in which frames get to the server."""

    mode: Mode = Mode.STREAM_PREBATCH
    prebatch: Prebatch = Prebatch()
    requests_in_flight: int = 8
    #: Bytes of one video's frames, where a mode reads it as a whole.
    memory_limit_bytes: int = 4 << 30


@dataclass(frozen=True)
class CaptionAnswer(AnswerEvent):
    """The captions of one request."""

    frames: tuple[int, ...]
    times_s: tuple[float, ...]
    captions: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.captions)


@dataclass(frozen=True)
class VideoEnd(End):
    """The end of a video, in seconds."""

    end_s: float = 0.0


def caption_video(
    path: Path, server: ApiClient, reading: VideoOptions, sending: Sending
) -> tuple[list[str], Counts]:
    """Captions one video without files. Raises VideoError if it is broken."""
    captions: list[str] = []

    def report(event: Event, _: float) -> None:
        if isinstance(event, CaptionAnswer):
            captions.extend(event.captions)
        elif isinstance(event, End) and event.error:
            raise VideoError(event.error)

    captioner = Captioner(server, reading, sending)
    return captions, captioner.run(find_sources([str(path)], VIDEOS), report)


def check_decoder() -> None:
    """Raises ClientError where PyAV is missing: it is an extra."""
    try:
        import clients.decoding  # noqa: F401
    except ModuleNotFoundError as error:
        raise ClientError(
            "Videos are read by PyAV: `make .venv/ready-captioner` installs it."
        ) from error


@dataclass(frozen=True)
class Captioner:
    """Sends videos to a model, which is a server's unless it is in this process."""

    server: CaptionModel
    reading: VideoOptions
    sending: Sending

    def run(
        self, videos: Sequence[Source], report: Report, done: Done | None = None
    ) -> Counts:
        """Captions all videos that are not done, in the order of frames. A broken video
        ends where it is broken. Raises ServerError and MemoryLimitError, and what
        `report` raises."""
        from clients.decoding import FrameReader  # an extra

        done, stopping = done or Done(), threading.Event()

        def read(number: int, video: Source) -> Iterator[tuple[Batch | End, float]]:
            """Batches and the end, each with the share of the video before it."""
            reader = FrameReader(video, self.reading, stopping)
            for batch in self._pack(number, reader, done.answered.get(number, 0)):
                length_s = max(reader.length_s, reader.end_s)
                yield batch, batch.times_s[-1] / length_s
            yield VideoEnd(number, reader.error, round(reader.end_s, 3)), 1.0

        events = walk(videos, done, read)
        in_flight = self.sending.requests_in_flight
        return Pipeline(events, self._ask, in_flight, stopping).follow(report)

    def _ask(self, batch: Batch) -> CaptionAnswer:
        captions = self.server.caption(batch.body, len(batch.frames))
        return CaptionAnswer(batch.video, batch.frames, batch.times_s, tuple(captions))

    def _pack(self, number: int, reader: FrameReader, skip: int) -> Iterator[Batch]:
        mode = self.sending.mode
        is_prebatch = mode is Mode.STREAM_PREBATCH
        prebatch = self.sending.prebatch if is_prebatch else Prebatch(frames=1)
        batches = pack_frames(number, reader.read(skip), prebatch)
        return self._hoard(batches, reader) if mode is Mode.SINGLE else batches

    def _hoard(self, batches: Iterator[Batch], reader: FrameReader) -> Iterator[Batch]:
        hoard: deque[Batch] = deque()
        left_bytes = self.sending.memory_limit_bytes
        for batch in batches:
            hoard.append(batch)
            left_bytes -= sum(len(part) for part in batch.body)
            if left_bytes < 0:
                raise MemoryLimitError(
                    f"{reader.video.name}: its first {len(hoard)} frames take more than "
                    f"{self.sending.memory_limit_bytes >> 20} MiB; use --mode "
                    "stream-single, or raise --memory-limit-mb"
                )
        while hoard:
            yield hoard.popleft()
