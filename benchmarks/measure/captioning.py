"""`python -m benchmarks captioning`: videos of several sizes in the captioner's three ways."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import av
from av.video.frame import VideoFrame

from benchmarks import driver
from benchmarks.instruments.keeping import keep
from benchmarks.instruments.load import deal_cores, divide, list_cpu, measure_cpu
from benchmarks.instruments.running import Running, find_running
from benchmarks.report import Columns, Findings, compare_turns
from catalog import checkpoint
from clients.captions import Mode, Sending, caption_video
from clients.decoding import FrameReader
from clients.files import VIDEOS, find_sources
from clients.frames import Every, FrameSize, VideoOptions
from clients.server import ApiClient, RetryPolicy
from models.shapes_recipe import scenes
from models.shapes_recipe.samples import draw_clip, plan_clip

#: The original's clients send frames as they are; ours scales them.
_FULL_SIZE = (Mode.SINGLE, Mode.STREAM_SINGLE)
_TIMEOUT_S = 300
#: `single` has the whole video in memory: 5.6 GB of 901 frames of 1080p.
_MEMORY_LIMIT_BYTES = 8 << 30
_SEED = 5
_FRAMES_PER_S = 30
#: A usual file's quality and seeking, quickly encoded.
_ENCODING = {"crf": "23", "preset": "veryfast", "g": "250"}


@dataclass(frozen=True)
class CaptionTurn:
    """One video captioned, or only decoded."""

    frames_per_s: float
    #: The share of captions that say what the frame shows; None if there are none.
    right: float | None = None
    #: Milliseconds of CPU per frame, by program.
    cpu_ms: Mapping[str, float] = field(default_factory=dict)


def answer(
    *, sizes: str, modes: str, frames: int, rounds: int, apart: bool, run_dir: Path
) -> Findings:
    """Frames/s of the running stack, mode by mode and size by size.

    `single` and `stream-single` send every frame unscaled in its own request, as the
    original did; `stream-prebatch` scales frames to the model's size and packs them.
    """
    running = find_running(run_dir)
    # The first way is compared with the others.
    ways = list(map(Mode, driver.read_words(modes)))
    wanted = {word: read_size(word) for word in driver.read_words(sizes)}
    cache = checkpoint.default_cache() / "benchmarks"
    turns = {}
    with deal_cores(running.leaders) if apart else nullcontext():
        for name, size in wanted.items():
            driver.say(f"{name}: drawing")
            path = find_video(cache, frames, width=size.width, height=size.height)
            turns[name] = _measure(running, path, frames, ways, rounds=rounds)
    every = [turn for ways in turns.values() for some in ways.values() for turn in some]
    figures: Columns[CaptionTurn] = {
        "frames/s": lambda turn: turn.frames_per_s,
        "right": lambda turn: turn.right,
        **list_cpu(every),
    }
    return compare_turns(turns, figures, case="size")


def read_size(text: str) -> FrameSize:
    """Read `1920x1080`. Raises ValueError."""
    width, by, height = text.partition("x")
    if not (by and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"{text!r}: expected a size such as 1920x1080")
    return FrameSize(height=int(height), width=int(width))


def _measure(
    running: Running, path: Path, frames: int, modes: Sequence[Mode], *, rounds: int
) -> dict[str, list[CaptionTurn]]:
    """Take all modes and the decoding alone in turns."""
    truth = list_captions(frames)

    def decode(reading: VideoOptions, _: int) -> CaptionTurn:
        (video,) = find_sources([str(path)], VIDEOS)
        began = time.perf_counter()
        for _frame in FrameReader(video, reading, threading.Event()).read():
            pass
        return CaptionTurn(frames / (time.perf_counter() - began))

    def caption(mode: Mode, _: int) -> CaptionTurn:
        reading = VideoOptions() if mode in _FULL_SIZE else scaled
        sending = Sending(mode=mode, memory_limit_bytes=_MEMORY_LIMIT_BYTES)
        (captions, summary), cpu_s = measure_cpu(
            running.leaders, lambda: caption_video(path, server, reading, sending)
        )
        return CaptionTurn(
            summary.answered / summary.seconds,
            sum(map(str.__eq__, captions, truth)) / len(truth),
            divide(cpu_s, summary.answered),
        )

    retries = RetryPolicy(timeout_s=_TIMEOUT_S)
    with ApiClient(running.url, retries, Sending.requests_in_flight) as server:
        scaled = VideoOptions(size=server.find_input())
        decoded = VideoOptions(size=scaled.size, every=Every(frames=2 * frames))
        ways = {
            **{mode.value: partial(caption, mode) for mode in modes},
            "decoding, scaling": partial(decode, scaled),
            "decoding": partial(decode, decoded),
        }
        return driver.take_turns(ways, rounds)


def find_video(cache: Path, frames: int, *, width: int, height: int) -> Path:
    """Return the video of this size, drawn once; every size shows the same scenes."""

    def make(part: Path) -> None:
        with av.open(part, "w") as container:
            stream = container.add_stream("libx264", _FRAMES_PER_S, options=_ENCODING)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for _, picture in draw_clip(_SEED, frames, width=width, height=height):
                container.mux(stream.encode(VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode())

    return keep(cache / f"shapes-{frames}-{width}x{height}.mp4", make)


def list_captions(frames: int) -> list[str]:
    """Return the captions of the video's frames."""
    return [scenes.describe(scene) for scene in plan_clip(_SEED, frames)]
