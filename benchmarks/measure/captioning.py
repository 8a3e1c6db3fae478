"""`python -m benchmarks captioning`: videos of several sizes in the captioner's three ways."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import driver
from benchmarks.figures import Spread, find_median, find_ratio, spread
from benchmarks.instruments.processes import deal_cores, divide, measure_cpu
from benchmarks.instruments.running import Running, find_running
from benchmarks.measure.videos import find_video, list_captions
from benchmarks.report import Columns, tabulate
from catalog import checkpoint
from clients.captioner import Mode, Sending, caption_video
from clients.decoding import FrameReader
from clients.frames import Every, FrameSize, VideoOptions
from clients.server import ApiClient, RetryPolicy
from clients.sources import VIDEOS, find_sources

_DECODING = "decoding"
_SCALING = "decoding, scaling"
#: The original's clients send frames as they are; ours scales them.
_FULL_SIZE = (Mode.SINGLE, Mode.STREAM_SINGLE)
_IN_FLIGHT = 8
_TIMEOUT_S = 300
#: `single` has the whole video in memory: 5.6 GB of 901 frames of 1080p.
_MEMORY_LIMIT_BYTES = 8 << 30


#: The turns of each way, by the video's size and the way.
Captions = Mapping[tuple[str, str], Sequence["CaptionTurn"]]


@dataclass(frozen=True)
class CaptionTurn:
    """One video captioned, or only decoded."""

    frames_per_s: float
    #: The share of captions that say what the frame shows; None if there are none.
    right: float | None = None
    #: Milliseconds of CPU per frame, by program.
    cpu_ms: Mapping[str, float] = field(default_factory=dict)


def answer(
    *,
    sizes: Annotated[
        str, typer.Option(help="Of the video, WIDTHxHEIGHT.")
    ] = "480x270,640x360,1280x720,1920x1080",
    modes: Annotated[str, typer.Option(help="The captioner's ways.")] = ",".join(Mode),
    frames: Annotated[int, typer.Option(help="Of the video.", min=1)] = 901,
    rounds: driver.Rounds = 2,
    apart: Annotated[
        bool,
        typer.Option(
            help="Client and stack on half of the cores each, as on two hosts."
        ),
    ] = False,
    run_dir: driver.RunDir = driver.DEFAULT_RUN,
) -> driver.Findings:
    """Frames/s of the running stack, mode by mode and size by size.

    `single` and `stream-single` send every frame unscaled in its own request, as the
    original did; `stream-prebatch` scales frames to the model's size and packs them.
    """
    running = find_running(run_dir)
    ways = [Mode(word) for word in driver.read_words(modes)]
    wanted = {word: read_size(word) for word in driver.read_words(sizes)}
    cache = checkpoint.default_cache() / "benchmarks"
    turns: dict[tuple[str, str], list[CaptionTurn]] = {}
    with deal_cores(running.leaders) if apart else nullcontext():
        for name, size in wanted.items():
            driver.say(f"{name}: drawing")
            path = find_video(cache, frames, width=size.width, height=size.height)
            measured = _measure(running, path, frames, ways, rounds=rounds)
            turns |= {(name, way): done for way, done in measured.items()}
    return describe(turns)


def read_size(text: str) -> FrameSize:
    """`1920x1080`. Raises ValueError."""
    width, by, height = text.partition("x")
    if not (by and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"{text!r}: expected a size such as 1920x1080")
    return FrameSize(height=int(height), width=int(width))


def _measure(
    running: Running, path: Path, frames: int, modes: Sequence[Mode], *, rounds: int
) -> dict[str, list[CaptionTurn]]:
    """All modes and the decoding alone, in turns."""

    def decode(reading: VideoOptions, _: int) -> CaptionTurn:
        (video,) = find_sources([str(path)], VIDEOS)
        began = time.perf_counter()
        for _frame in FrameReader(video, reading, threading.Event()).read():
            pass
        return CaptionTurn(frames / (time.perf_counter() - began))

    def caption(mode: Mode, _: int) -> CaptionTurn:
        reading = VideoOptions() if mode in _FULL_SIZE else scaled
        sending = Sending(
            mode=mode,
            requests_in_flight=_IN_FLIGHT,
            memory_limit_bytes=_MEMORY_LIMIT_BYTES,
        )
        (captions, summary), cpu_s = measure_cpu(
            running.leaders, lambda: caption_video(path, server, reading, sending)
        )
        truth = list_captions(frames)
        return CaptionTurn(
            summary.frames / summary.seconds,
            sum(map(str.__eq__, captions, truth)) / len(truth),
            divide(cpu_s, summary.frames),
        )

    with ApiClient(
        running.url, RetryPolicy(timeout_s=_TIMEOUT_S), _IN_FLIGHT
    ) as server:
        scaled = VideoOptions(size=server.find_input())
        decoded = VideoOptions(size=scaled.size, every=Every(frames=2 * frames))
        ways = {
            _DECODING: partial(decode, decoded),
            _SCALING: partial(decode, scaled),
            **{mode.value: partial(caption, mode) for mode in modes},
        }
        return driver.take_turns(ways, rounds)


def describe(turns: Captions) -> driver.Findings:
    """A row per size and mode: medians over the rounds."""
    programs = dict.fromkeys(
        n for done in turns.values() for t in done for n in t.cpu_ms
    )

    def read_cpu(program: str, place: tuple[str, str]) -> float | None:
        return find_median(turn.cpu_ms.get(program) for turn in turns[place])

    columns: Columns[tuple[str, str]] = {
        "size": lambda place: place[0],
        "way": lambda place: place[1],
        "frames/s": lambda place: spread(turn.frames_per_s for turn in turns[place]),
        "right": lambda place: find_median(turn.right for turn in turns[place]),
        **{f"{name} CPU ms": partial(read_cpu, name) for name in programs},
    }
    ratios = list_ratios(turns)
    flat = [
        {"size": size, "way": way, "turns": done} for (size, way), done in turns.items()
    ]
    return driver.Findings(
        tabulate(turns, columns),
        {"turns": flat, "ratios": ratios},
        [f"{name}: {ratio}" for name, ratio in ratios.items()],
    )


def list_ratios(turns: Captions) -> dict[str, Spread]:
    """Prebatches against the other ways at each size, and the last size against the first."""
    sizes = list(dict.fromkeys(size for size, _ in turns))
    first, last = sizes[0], sizes[-1]
    ours = Mode.STREAM_PREBATCH
    pairs = {
        **{
            f"{ours} / {way}, {size}": ((size, ours), (size, way))
            for size in sizes
            for way in (Mode.SINGLE, Mode.STREAM_SINGLE, _SCALING)
        },
        f"{ours}, {last} / {first}": ((last, ours), (first, ours)),
    }
    ratios = {
        name: find_ratio(*([t.frames_per_s for t in turns[place]] for place in pair))
        for name, pair in pairs.items()
        if turns.keys() >= set(pair)
    }
    return {name: ratio for name, ratio in ratios.items() if ratio}
