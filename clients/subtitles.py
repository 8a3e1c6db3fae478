"""Writes answers as JSON lines, SubRip or WebVTT."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from clients.captioner import CaptionAnswer, VideoEnd
from clients.journal import End


class SubtitleFormat(StrEnum):
    """The format that is written."""

    JSONL = "jsonl"
    SRT = "srt"
    VTT = "vtt"


@dataclass(frozen=True)
class Cue:
    """A caption and the time it is shown."""

    start_ms: int
    end_ms: int
    text: str


def render(
    kind: SubtitleFormat, video: str, events: Iterable[CaptionAnswer | VideoEnd]
) -> Iterator[str]:
    """The pieces of a video's text."""
    if kind is SubtitleFormat.JSONL:
        yield from _render_records(video, events)
        return
    mark = "," if kind is SubtitleFormat.SRT else "."
    if kind is SubtitleFormat.VTT:
        yield "WEBVTT\n\n"
    for number, cue in enumerate(join_cues(events), start=1):
        # SubRip's players know no escapes; WebVTT's need them.
        text = (
            cue.text
            if kind is SubtitleFormat.SRT
            else html.escape(cue.text, quote=False)
        )
        head = f"{number}\n" if kind is SubtitleFormat.SRT else ""
        times = f"{show_time(cue.start_ms, mark)} --> {show_time(cue.end_ms, mark)}"
        yield f"{head}{times}\n{text}\n\n"


def join_cues(events: Iterable[CaptionAnswer | VideoEnd]) -> Iterator[Cue]:
    """A cue for as long as the caption stays the same, up to the next frame that has a
    caption, or the video's end; none for an empty caption."""
    cue: Cue | None = None
    for time_s, caption in _list_changes(events):
        time_ms = round(1000 * time_s)
        if cue and caption == cue.text:
            continue
        if cue and cue.text:
            yield Cue(cue.start_ms, max(time_ms, cue.start_ms + 1), cue.text)
        cue = None if caption is None else Cue(time_ms, time_ms, caption)


def show_time(time_ms: int, mark: str) -> str:
    """`01:02:03,004`, with the format's mark before the milliseconds."""
    seconds, milliseconds = divmod(time_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{mark}{milliseconds:03}"


def _render_records(
    video: str, events: Iterable[CaptionAnswer | VideoEnd]
) -> Iterator[str]:
    for event in events:
        if isinstance(event, End):
            continue
        rows = zip(event.frames, event.times_s, event.captions, strict=True)
        for frame, time_s, caption in rows:
            record = {
                "video": video,
                "frame": frame,
                "time_s": time_s,
                "caption": caption,
            }
            yield json.dumps(record, ensure_ascii=False) + "\n"


def _list_changes(
    events: Iterable[CaptionAnswer | VideoEnd],
) -> Iterator[tuple[float, str | None]]:
    """Time and caption of each frame on one line, and None at the video's end."""
    for event in events:
        if isinstance(event, End):
            yield event.end_s, None
            continue
        for time_s, caption in zip(event.times_s, event.captions, strict=True):
            # An empty line would end the cue, and an arrow would be read as its time.
            yield time_s, " ".join(caption.split()).replace("-->", "->")
