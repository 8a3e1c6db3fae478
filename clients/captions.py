"""Captions videos in order and in bounded memory: one thread decodes while others send. Writes
the captions as JSON lines, SubRip or WebVTT.
"""

from __future__ import annotations

import html
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import TypeAdapter

from clients import bulk
from clients.errors import ClientError, InputError, OutputError
from clients.files import (
    VIDEOS,
    OutputPlan,
    Source,
    find_sources,
    is_folder,
    name_files,
    name_journal,
    write_whole,
)
from clients.frames import Batch, Prebatch, VideoOptions, pack_frames
from clients.server import ApiClient, Body

if TYPE_CHECKING:
    from clients.decoding import FrameReader


#: Returns the captions of an array with this number of frames; may raise ServerError.
CaptionFrames = Callable[[Body, int], Sequence[str]]


class Mode(StrEnum):
    """The three ways to send a video."""

    STREAM_PREBATCH = "stream-prebatch"
    STREAM_SINGLE = "stream-single"
    SINGLE = "single"


@dataclass(frozen=True)
class Sending:
    """The options for sending frames to the server."""

    mode: Mode = Mode.STREAM_PREBATCH
    prebatch: Prebatch = Prebatch()
    requests_in_flight: int = 8
    #: The limit for one video's frames, if the mode reads the whole video first.
    memory_limit_bytes: int = 4 << 30


@dataclass(frozen=True)
class CaptionAnswer(bulk.Event):
    """The captions of one request."""

    frames: tuple[int, ...]
    times_s: tuple[float, ...]
    captions: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.captions)


@dataclass(frozen=True)
class VideoEnd(bulk.End):
    """The end of a video, with its time in seconds."""

    end_s: float = 0.0


def caption_video(
    path: Path, server: ApiClient, reading: VideoOptions, sending: Sending
) -> list[str]:
    """Return the captions of one video, without a file. Raises InputError if it is broken."""
    captions: list[str] = []

    def report(event: bulk.Event, _: float) -> None:
        if isinstance(event, CaptionAnswer):
            captions.extend(event.captions)
        elif isinstance(event, bulk.End) and event.error:
            raise InputError(event.error)

    captioner = Captioner(server.caption, reading, sending)
    captioner.run(find_sources([str(path)], VIDEOS), report)
    return captions


def check_decoder() -> None:
    """Raise ClientError if PyAV, an extra, is not installed."""
    try:
        import clients.decoding  # noqa: F401
    except ModuleNotFoundError as error:
        raise ClientError(
            "Reading videos requires PyAV: `make .venv/ready-captioner` installs it."
        ) from error


@dataclass(frozen=True)
class Captioner:
    """A captioner of videos, whose model is on a server or in this process."""

    caption: CaptionFrames
    reading: VideoOptions
    sending: Sending

    def run(
        self,
        videos: Sequence[Source],
        report: bulk.Report,
        done: bulk.Done | None = None,
    ) -> None:
        """Caption the videos that are not done, in the order of their frames, each up to its
        end or the first fault. Raises ClientError, and the exceptions of `report`."""
        from clients.decoding import FrameReader  # an extra

        done = done or bulk.Done()

        def read(number: int) -> Iterator[tuple[Batch | bulk.End, float]]:
            reader = FrameReader(videos[number], self.reading)
            for batch in self._pack(number, reader, done.answered[number]):
                yield batch, batch.times_s[-1] / max(reader.length_s, reader.end_s)
            yield VideoEnd(number, reader.error, round(reader.end_s, 3)), 1.0

        in_flight = self.sending.requests_in_flight
        ask = self._ask_captions
        bulk.answer_in_order(
            videos, done, report, read=read, ask=ask, in_flight=in_flight
        )

    def _ask_captions(self, batch: Batch) -> CaptionAnswer:
        captions = self.caption(batch.body, len(batch.frames))
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
                raise ClientError(
                    f"{reader.video.name}: its first {len(hoard)} frames take more than "
                    f"{self.sending.memory_limit_bytes >> 20} MiB; use --mode "
                    "stream-single, or raise --memory-limit-mb"
                )
        while hoard:
            yield hoard.popleft()


class SubtitleFormat(StrEnum):
    """The format of the output."""

    JSONL = "jsonl"
    SRT = "srt"
    VTT = "vtt"


def plan_captions(
    videos: Sequence[Source], name: str, kind: SubtitleFormat | None
) -> tuple[OutputPlan, SubtitleFormat]:
    """Plan the output: one file of JSON lines, or a subtitle file per video, in a folder if
    there are several. A name that ends in a slash is a folder. Without a kind, the suffix
    decides. Raises OutputError for a contradiction."""
    output = Path(name)
    has_folder = is_folder(name)
    kind = kind or (SubtitleFormat.JSONL if has_folder else _guess(output))
    is_single = kind is SubtitleFormat.JSONL
    if is_single and has_folder:
        raise OutputError(
            f"{output} is a folder: give a file such as {output / 'captions.jsonl'}, or "
            "--format srt or vtt for a file per video"
        )
    if is_single or (len(videos) == 1 and not has_folder):
        files = [output] * len(videos)
    else:
        suffix = f".{kind}"
        if output.suffix == suffix and not has_folder:
            raise OutputError(
                f"{output}: {len(videos)} videos do not fit into one {kind} file; give a "
                f"folder: -o {output.with_suffix('')} --format {kind}"
            )
        if output.exists() and not has_folder:
            raise OutputError(
                f"{output}: {len(videos)} videos need a folder, not a file"
            )
        files = name_files(videos, lambda v: (output / v.relative).with_suffix(suffix))
    if {file.resolve() for file in files} & {v.path.resolve() for v in videos}:
        raise OutputError(f"{output}: the captions would replace a video")
    return OutputPlan(files, name_journal(output)), kind


def _guess(output: Path) -> SubtitleFormat:
    try:
        return SubtitleFormat(output.suffix.removeprefix(".").lower())
    except ValueError as error:
        raise OutputError(
            f"{output}: expected a name that ends in .jsonl, .srt or .vtt, or --format"
        ) from error


@dataclass(frozen=True, kw_only=True)
class CaptionJob(bulk.FileJob):
    """A job that captions videos."""

    kind: SubtitleFormat
    url: str
    captioner: Captioner

    unit: ClassVar[str] = "frames"
    events: ClassVar[TypeAdapter[Any]] = TypeAdapter(CaptionAnswer | VideoEnd)

    def check(self) -> None:
        check_decoder()

    def describe(self) -> bulk.Origin:
        reading = self.captioner.reading
        return {
            "url": self.url,
            "every": asdict(reading.every),
            "size": asdict(reading.size) if reading.size else None,
        }

    def run(self, report: bulk.Report, journal: bulk.Journal) -> None:
        self.captioner.run(self.sources, report, journal.done)

    def publish(self, journal: bulk.Journal, end: VideoEnd) -> bulk.Remarks:
        files = self.plan.files
        # All videos share a file, or none does.
        own = range(len(files)) if files[0] == files[-1] else [end.source]
        if end.source != own[-1]:
            return bulk.Remarks()
        if not end.error or any(journal.done.answered[n] for n in own):
            pieces = chain.from_iterable(
                render(self.kind, self.sources[n].name, journal.read(n)) for n in own
            )
            with write_whole(files[end.source]) as file:
                # JSON's escape for a byte of a file name that is not UTF-8.
                file.writelines(p.encode(errors="backslashreplace") for p in pieces)
        return bulk.Remarks()


@dataclass(frozen=True)
class Cue:
    """A caption and the time it is shown."""

    start_ms: int
    end_ms: int
    text: str


def render(
    kind: SubtitleFormat, video: str, events: Iterable[CaptionAnswer | VideoEnd]
) -> Iterator[str]:
    """Yield the output of a video, piece by piece."""
    if kind is SubtitleFormat.JSONL:
        for frame, time_s, caption in _list_captions(events):
            record = {"video": video, "frame": frame, "time_s": time_s}
            line = json.dumps({**record, "caption": caption}, ensure_ascii=False)
            yield f"{line}\n"
        return
    is_srt = kind is SubtitleFormat.SRT
    if not is_srt:
        yield "WEBVTT\n\n"
    for number, cue in enumerate(join_cues(events), start=1):
        # WebVTT requires escapes, which SubRip players would show.
        text = cue.text if is_srt else html.escape(cue.text, quote=False)
        head = f"{number}\n" if is_srt else ""
        mark = "," if is_srt else "."
        times = f"{show_time(cue.start_ms, mark)} --> {show_time(cue.end_ms, mark)}"
        yield f"{head}{times}\n{text}\n\n"


def join_cues(events: Iterable[CaptionAnswer | VideoEnd]) -> Iterator[Cue]:
    """Yield a cue for each run of frames with the same caption, up to the next captioned frame
    or the end of the video; none for an empty caption."""
    changes = (
        next(group) for _, group in groupby(_list_changes(events), key=itemgetter(1))
    )
    for (start_ms, text), (end_ms, _) in pairwise(changes):
        if text:
            yield Cue(start_ms, max(end_ms, start_ms + 1), text)


def show_time(time_ms: int, mark: str) -> str:
    """Format a time as `01:02:03,004`, with the format's mark before the milliseconds."""
    seconds, milliseconds = divmod(time_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{mark}{milliseconds:03}"


def _list_changes(
    events: Iterable[CaptionAnswer | VideoEnd],
) -> Iterator[tuple[int, str | None]]:
    """Yield each frame's milliseconds and caption, without line breaks; None at the end."""
    for event in events:
        for _, time_s, caption in _list_captions([event]):
            # An empty line would end the cue, and an arrow would be parsed as its times.
            text = " ".join(caption.split()).replace("-->", "->")
            yield round(1000 * time_s), text
        if isinstance(event, bulk.End):
            yield round(1000 * event.end_s), None


def _list_captions(
    events: Iterable[CaptionAnswer | VideoEnd],
) -> Iterator[tuple[int, float, str]]:
    for event in events:
        if isinstance(event, CaptionAnswer):
            yield from zip(event.frames, event.times_s, event.captions, strict=True)
