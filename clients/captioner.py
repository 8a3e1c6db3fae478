"""Captions videos in order, in bounded memory: a thread decodes while others send."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

from clients.batches import Batch, Prebatch, pack
from clients.errors import MemoryLimitError, VideoError
from clients.frames import FrameReader, Reading
from clients.server import Server
from clients.videos import Video, find_videos


class Mode(StrEnum):
    """The three ways to send a video."""

    STREAM_PREBATCH = "stream-prebatch"
    STREAM_SINGLE = "stream-single"
    SINGLE = "single"


@dataclass(frozen=True)
class Sending:
    """How frames get to the server."""

    mode: Mode = Mode.STREAM_PREBATCH
    prebatch: Prebatch = Prebatch()
    requests_in_flight: int = 8
    #: Bytes of one video's frames, where a mode reads it as a whole.
    memory_limit_bytes: int = 4 << 30


@dataclass(frozen=True)
class Answer:
    """The captions of one request."""

    video: int
    frames: tuple[int, ...]
    times_s: tuple[float, ...]
    captions: tuple[str, ...]


@dataclass(frozen=True)
class End:
    """The end of a video, or the place where it is broken."""

    video: int
    end_s: float
    error: str | None = None


@dataclass(frozen=True)
class Done:
    """What an earlier run did."""

    #: Captions by video.
    frames: Mapping[int, int] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Summary:
    """What a run did, without earlier ones."""

    videos: int
    frames: int
    requests: int
    seconds: float
    #: Seconds of decoding, scaling and packing; the server is asked meanwhile.
    decode_s: float


#: Told of each answer and end, with the share of all videos' bytes that is done.
Report = Callable[[Answer | End, float], None]


def caption_video(
    path: Path,
    server: Server,
    reading: Reading,
    sending: Sending,
) -> tuple[list[str], Summary]:
    """Captions one video without files. Raises VideoError if it is broken."""
    captions: list[str] = []

    def report(event: Answer | End, _: float) -> None:
        if isinstance(event, Answer):
            captions.extend(event.captions)
        elif event.error:
            raise VideoError(event.error)

    captioner = Captioner(server, reading, sending)
    return captions, captioner.run(find_videos([str(path)]), report)


@dataclass(frozen=True)
class Captioner:
    """Sends videos to a server."""

    server: Server
    reading: Reading
    sending: Sending

    def run(
        self, videos: Sequence[Video], report: Report, done: Done = Done()
    ) -> Summary:
        """Captions all videos that are not done, in the order of frames. A broken video
        ends where it is broken. Raises ServerError and MemoryLimitError, and what
        `report` raises."""
        began = time.perf_counter()
        frames = requests = 0
        stopping = threading.Event()
        work = _Work(videos, done, self.reading, self.sending, stopping)
        in_flight = self.sending.requests_in_flight
        pipeline = _Pipeline(work.list_events(), self.server, in_flight, stopping)
        with closing(pipeline.run()) as events:
            for event, share in events:
                if isinstance(event, Answer):
                    frames += len(event.captions)
                    requests += 1
                report(event, share)
        seconds = time.perf_counter() - began
        return Summary(len(videos), frames, requests, seconds, pipeline.busy_s)


@dataclass(frozen=True)
class _Work:
    """What the videos become: batches, and the end of each video."""

    videos: Sequence[Video]
    done: Done
    reading: Reading
    sending: Sending
    stopping: threading.Event

    def list_events(self) -> Iterator[tuple[Batch | End, float]]:
        """Batches and ends, each with the share of all videos' bytes before it."""
        total = sum(video.size_bytes for video in self.videos) or 1
        behind = 0
        for number, video in enumerate(self.videos):
            if number not in self.done.ended:
                for event, part in self._list_events(number, video):
                    yield event, (behind + part * video.size_bytes) / total
            behind += video.size_bytes

    def _list_events(
        self, number: int, video: Video
    ) -> Iterator[tuple[Batch | End, float]]:
        reader = FrameReader(video, self.reading, self.stopping)
        for batch in self._pack(number, reader):
            length_s = max(reader.length_s, reader.end_s)
            yield batch, batch.times_s[-1] / length_s
        yield End(number, round(reader.end_s, 3), reader.error), 1.0

    def _pack(self, number: int, reader: FrameReader) -> Iterable[Batch]:
        mode = self.sending.mode
        is_prebatch = mode is Mode.STREAM_PREBATCH
        prebatch = self.sending.prebatch if is_prebatch else Prebatch(frames=1)
        frames = reader.read(skip=self.done.frames.get(number, 0))
        batches = pack(number, frames, prebatch)
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


_Ordered = tuple[End | Batch, float, Future[list[str]] | None]


class _Pipeline:
    """A reader that stays ahead by as many batches as there are slots, and the senders."""

    def __init__(
        self,
        events: Iterator[tuple[Batch | End, float]],
        server: Server,
        in_flight: int,
        stopping: threading.Event,
    ) -> None:
        #: How long the reader has worked, without its waiting.
        self.busy_s = 0.0
        self._events = events
        self._server = server
        # As many are under way as wait for a slow one before them or for a sender.
        self._slots = threading.Semaphore(2 * in_flight)
        self._stopping = stopping
        self._ordered: SimpleQueue[_Ordered | Exception | None] = SimpleQueue()
        self._jobs: SimpleQueue[tuple[Batch, Future[list[str]]] | None] = SimpleQueue()
        # Daemons: whoever stops does not wait for answers.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._senders = [
            threading.Thread(target=self._send, daemon=True) for _ in range(in_flight)
        ]

    def run(self) -> Generator[tuple[Answer | End, float]]:
        """Answers and ends in order."""
        for thread in (self._reader, *self._senders):
            thread.start()
        try:
            while (item := self._ordered.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                event, share, future = item
                if isinstance(event, Batch) and future:
                    captions = tuple(future.result())
                    self._slots.release()
                    yield (
                        Answer(event.video, event.frames, event.times_s, captions),
                        share,
                    )
                elif isinstance(event, End):
                    yield event, share
        finally:
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        self._slots.release()
        self._reader.join()
        for _ in self._senders:
            self._jobs.put(None)

    def _read(self) -> None:
        try:
            while (item := self._next()) is not None and not self._stopping.is_set():
                event, share = item
                future: Future[list[str]] | None = None
                if isinstance(event, Batch):
                    self._slots.acquire()
                    future = Future()
                    self._jobs.put((event, future))
                self._ordered.put((event, share, future))
        except (
            Exception
        ) as error:  # whatever it is, it is raised where it is waited for
            self._ordered.put(error)
        self._ordered.put(None)

    def _next(self) -> tuple[Batch | End, float] | None:
        began = time.perf_counter()
        item = next(self._events, None)
        self.busy_s += time.perf_counter() - began
        return item

    def _send(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch, future = job
            if self._stopping.is_set():
                continue
            try:
                captions = self._server.caption(batch.body, len(batch.frames))
            except Exception as error:  # as above
                future.set_exception(error)
            else:
                future.set_result(captions)
            del job, batch, future  # the pixels
