"""`python -m benchmarks captioning`: videos of several sizes in the captioner's three ways."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import Spread, find_median, find_ratio, group, show, spread
from benchmarks.instruments.processes import deal_cores, divide, measure_cpu
from benchmarks.instruments.running import Running, find_running
from benchmarks.measure.videos import find_video, list_captions
from benchmarks.options import (
    DEFAULT_RUN,
    Bar,
    Out,
    RunDir,
    console,
    explain_errors,
    publish,
    read_words,
    show_progress,
)
from benchmarks.report import Content, Table
from catalog import checkpoint
from clients.captioner import Mode, Sending, caption_video
from clients.decoding import FrameReader
from clients.frames import Every, Reading, Size
from clients.server import Patience, Server
from clients.sources import VIDEOS, find_sources

_DECODING = "decoding"
_SCALING = "decoding, scaling"
#: The original's clients send frames as they are; ours scales them.
_FULL_SIZE = (Mode.SINGLE, Mode.STREAM_SINGLE)
_IN_FLIGHT = 8
_TIMEOUT_S = 300
#: `single` has the whole video in memory: 5.6 GB of 901 frames of 1080p.
_MEMORY_LIMIT_BYTES = 8 << 30


@dataclass(frozen=True)
class Turn:
    """One video captioned in one mode, or only decoded."""

    size: str
    way: str
    round: int
    frames_per_s: float
    #: The share of captions that say what the frame shows; None if there are none.
    right: float | None = None
    #: Milliseconds of CPU per frame, by program.
    cpu_ms: Mapping[str, float] = field(default_factory=dict)


def command(
    *,
    sizes: Annotated[
        str, typer.Option(help="Of the video, WIDTHxHEIGHT.")
    ] = "480x270,640x360,1280x720,1920x1080",
    modes: Annotated[str, typer.Option(help="The captioner's ways.")] = ",".join(Mode),
    frames: Annotated[int, typer.Option(help="Of the video.", min=1)] = 901,
    rounds: Annotated[int, typer.Option(help="Turns of each.", min=1)] = 2,
    apart: Annotated[
        bool,
        typer.Option(
            help="Client and stack on half of the cores each, as on two hosts."
        ),
    ] = False,
    run_dir: RunDir = DEFAULT_RUN,
    out: Out = Path("run/benchmark-captioning.json"),
) -> None:
    """Frames/s of the running stack, mode by mode and size by size.

    `single` and `stream-single` send every frame unscaled in its own request, as the
    original did; `stream-prebatch` scales frames to the model's size and packs them.
    """
    with explain_errors():
        running = find_running(run_dir)
        ways = [Mode(word) for word in read_words(modes)]
        wanted = [read_size(word) for word in read_words(sizes)]
        cache = checkpoint.default_cache() / "benchmarks"
        turns: list[Turn] = []
        ticks = len(wanted) * (1 + rounds * (len(ways) + 2))
        dealt = deal_cores(running.leaders) if apart else nullcontext()
        with dealt, show_progress(ticks) as bar:
            bench = _Bench(running, frames, bar)
            for size in wanted:
                bar.say(f"drawing {size.width}x{size.height}")
                path = find_video(cache, frames, width=size.width, height=size.height)
                bar.tick()
                turns += bench.measure(path, size, ways, rounds)
        ratios = list_ratios(turns)
        for name, ratio in ratios.items():
            console.print(f"{name}: {ratio}")
        options = {"frames": frames, "apart": apart, "in_flight": _IN_FLIGHT}
        content = Content("captioning", options, {"turns": turns, "ratios": ratios})
        publish(out, tabulate(turns), content)


def read_size(text: str) -> Size:
    """`1920x1080`. Raises ValueError."""
    width, by, height = text.partition("x")
    if not (by and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"{text!r}: expected a size such as 1920x1080")
    return Size(height=int(height), width=int(width))


@dataclass(frozen=True)
class _Bench:
    """Captions with one stack."""

    running: Running
    frames: int
    bar: Bar

    def measure(
        self, path: Path, size: Size, ways: Sequence[Mode], rounds: int
    ) -> list[Turn]:
        """All modes and the decoding alone, in turns."""
        name = f"{size.width}x{size.height}"
        patience = Patience(timeout_s=_TIMEOUT_S)
        turns: list[Turn] = []
        with Server(self.running.url, patience, _IN_FLIGHT) as server:
            scaled = Reading(size=server.find_input())
            decoded = replace(scaled, every=Every(frames=2 * self.frames))
            for number in range(rounds):
                self.bar.say(f"{name}: decoding")
                for way, reading in ((_DECODING, decoded), (_SCALING, scaled)):
                    turns.append(Turn(name, way, number, self._decode(path, reading)))
                for mode in ways:
                    self.bar.say(f"{name}: {mode}")
                    reading = Reading() if mode in _FULL_SIZE else scaled
                    turn = self._caption(path, mode, reading, server)
                    turns.append(replace(turn, size=name, round=number))
        return turns

    def _decode(self, path: Path, reading: Reading) -> float:
        (video,) = find_sources([str(path)], VIDEOS)
        began = time.perf_counter()
        for _ in FrameReader(video, reading, threading.Event()).read():
            pass
        seconds = time.perf_counter() - began
        self.bar.tick()
        return self.frames / seconds

    def _caption(
        self, path: Path, mode: Mode, reading: Reading, server: Server
    ) -> Turn:
        sending = Sending(
            mode=mode,
            requests_in_flight=_IN_FLIGHT,
            memory_limit_bytes=_MEMORY_LIMIT_BYTES,
        )
        (captions, summary), cpu_s = measure_cpu(
            self.running.leaders, lambda: caption_video(path, server, reading, sending)
        )
        truth = list_captions(self.frames)
        right = sum(map(str.__eq__, captions, truth)) / len(truth)
        self.bar.tick()
        speed = summary.frames / summary.seconds
        return Turn("", mode, 0, speed, right, divide(cpu_s, summary.frames))


def list_ratios(turns: Sequence[Turn]) -> dict[str, Spread]:
    """Prebatches against the other ways at each size, and the last size against the first."""
    sizes = list(dict.fromkeys(turn.size for turn in turns))
    first, last = sizes[0], sizes[-1]
    ours = Mode.STREAM_PREBATCH
    pairs = {
        **{
            f"{ours} / {way}, {size}": ((ours, size), (way, size))
            for size in sizes
            for way in (Mode.SINGLE, Mode.STREAM_SINGLE, _SCALING)
        },
        f"{ours}, {last} / {first}": ((ours, last), (ours, first)),
    }
    measured = group(turns, lambda turn: (turn.way, turn.size))
    ratios = {
        name: find_ratio(*([t.frames_per_s for t in measured[place]] for place in pair))
        for name, pair in pairs.items()
        if measured.keys() >= set(pair)
    }
    return {name: ratio for name, ratio in ratios.items() if ratio}


def tabulate(turns: Sequence[Turn]) -> Table:
    """A row per size and mode: medians over the rounds."""
    programs = list(dict.fromkeys(name for turn in turns for name in turn.cpu_ms))
    groups = group(turns, lambda turn: (turn.size, turn.way))
    headers = ("size", "way", "frames/s", "right", *(f"{p} CPU ms" for p in programs))
    return Table(
        headers,
        tuple(
            (
                *(size, way, str(spread(turn.frames_per_s for turn in done))),
                _show((turn.right for turn in done), "{:.1%}".format),
                *(
                    _show(turn.cpu_ms.get(program) for turn in done)
                    for program in programs
                ),
            )
            for (size, way), done in groups.items()
        ),
    )


def _show(values: Iterable[float | None], form: Callable[[float], str] = show) -> str:
    value = find_median(values)
    return "" if value is None else form(value)
