"""Measures the running stack: `python -m benchmarks stack` puts load on port 7777, `fairness`
sends single sentences while it translates a document, and `captioning` sends videos of several
sizes in the captioner's three modes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import av
from av.video.frame import VideoFrame
from urllib3.filepost import encode_multipart_formdata

from benchmarks import driver, report
from benchmarks.instruments import load
from benchmarks.instruments.load import CLOSED, LOAD_COLUMNS, OPEN, LoadFigures
from benchmarks.instruments.running import Running, find_running, keep, wait_until
from benchmarks.instruments.workload import (
    REQUESTS,
    MeasuredTask,
    draw,
    draw_requests,
    write_document,
    write_request,
)
from catalog import checkpoint
from clients.captions import Mode, Sending, caption_video
from clients.decoding import FrameReader
from clients.files import VIDEOS, find_sources
from clients.frames import FrameSize, VideoOptions
from clients.server import ApiClient, ApiRequest, RetryPolicy
from models.shapes_recipe import scenes
from models.shapes_recipe.samples import draw_clip, plan_clip

_SOURCE, _TARGET = "en", "fr"
_SENTENCES = 500
#: The time limit for reading a document and translating its first sentences.
_BEGIN_S = 120
#: The modes of the original's clients, which send frames unscaled.
_FULL_SIZE = (Mode.SINGLE, Mode.STREAM_SINGLE)
_ANSWER_S = 300
#: `single` reads the whole video into memory: 5.6 GB for 901 frames of 1080p.
_MEMORY_LIMIT_BYTES = 8 << 30
_SEED = 5
_FRAMES_PER_S = 30
#: The quality and seeking of a usual file, and fast encoding.
_ENCODING = {"crf": "23", "preset": "veryfast", "g": "250"}


def answer(
    *, clients: str, rates: str, seconds: float, task: MeasuredTask, run_dir: Path
) -> report.Findings:
    """Measure requests/s, latency, errors, CPU and memory of the running stack.

    In a closed loop, each client waits for its answer before it asks again. In an open
    loop, requests arrive at random, independently of other requests, and latency counts from
    the planned arrival.
    """
    levels = [(OPEN, rate) for rate in driver.read_numbers(rates, float)]
    levels = [(CLOSED, n) for n in driver.read_numbers(clients)] + levels
    asked = find_running(run_dir).aim(draw_requests(task, REQUESTS))
    loads: list[LoadFigures] = []
    for loop, level in levels:
        driver.say(f"{loop} loop, {level:g}")
        loads.append(load.measure(asked, loop, level, seconds=seconds)[0])
    times = ("p50 ms", "p95 ms", "p99 ms")
    charts = [report.plot(loads, "requests/s", ms, line="loop") for ms in times]
    return report.Findings(report.tabulate(loads), loads, charts=charts)


def measure_fairness(
    *, kilobytes: float, seconds: float, rounds: int, run_dir: Path
) -> report.Findings:
    """Compare one client's p95 while the running stack translates a document with its p95
    alone."""
    running = find_running(run_dir)
    content = write_document(_SOURCE, int(kilobytes * 1000))
    asked = running.aim(list(map(write_request, draw(_SENTENCES, (_TARGET,)))))
    done: list[str] = []

    def ask_beside() -> LoadFigures:
        with _upload(running, content) as look:
            wait_until(lambda: look()["texts_done"], "it has begun", _BEGIN_S)
            figures = load.measure_closed(asked, clients=1, seconds=seconds)
            progress = look()
        done.append(f"{progress['texts_done']} of {progress['texts']}")
        return figures

    ways: Mapping[str, Callable[[], LoadFigures]] = {
        "beside a document": ask_beside,
        "alone": partial(load.measure_closed, asked, clients=1, seconds=seconds),
    }
    found = driver.compare(ways, rounds, LOAD_COLUMNS)
    return replace(found, remarks=[f"texts done: {', '.join(done)}"])


@contextmanager
def _upload(running: Running, content: str) -> Iterator[Callable[[], Any]]:
    """Upload a plain text as a document, and delete it at the end. Yields a function that
    returns its state. Both raise ServerError."""
    languages = {"src_lang": _SOURCE, "tgt_lang": _TARGET}
    form, kind = encode_multipart_formdata(
        {**languages, "file": ("document.txt", content.encode())}
    )
    with ApiClient(running.url, headers=running.headers) as server:
        job = server.ask(ApiRequest("POST", "/documents", [form], kind))
        path = f"/documents/{job['id']}"
        try:
            yield partial(server.ask, ApiRequest("GET", path))
        finally:
            server.ask(ApiRequest("DELETE", path))


def measure_captioning(
    *, sizes: str, modes: str, frames: int, rounds: int, run_dir: Path
) -> report.Findings:
    """Measure frames/s of the running stack, mode by mode and size by size.

    `single` and `stream-single` send every frame unscaled in its own request, as the
    original did; `stream-prebatch` scales frames to the model's size and packs them.
    """
    running = find_running(run_dir)
    # The first way is compared with the others.
    ways = list(map(Mode, driver.read_words(modes)))
    wanted = {word: read_size(word) for word in driver.read_words(sizes)}
    cache = checkpoint.default_cache() / "benchmarks"
    turns = {}
    for name, size in wanted.items():
        driver.say(f"{name}: drawing")
        path = find_video(cache, frames, width=size.width, height=size.height)
        turns[name] = _caption_all(running, path, frames, ways, rounds=rounds)
    return report.compare_turns(turns, case="size")


def read_size(text: str) -> FrameSize:
    """Read `1920x1080`. Raises ValueError."""
    width, by, height = text.partition("x")
    if not (by and width.isdecimal() and height.isdecimal()):
        raise ValueError(f"{text!r}: expected a size such as 1920x1080")
    return FrameSize(height=int(height), width=int(width))


def _caption_all(
    running: Running, path: Path, frames: int, modes: Sequence[Mode], *, rounds: int
) -> dict[str, list[Mapping[str, float]]]:
    """Alternate between all modes and decoding alone: frames/s, the share of right captions,
    and milliseconds of CPU per frame by program."""
    truth = list_captions(frames)

    def decode() -> Mapping[str, float]:
        (video,) = find_sources([str(path)], VIDEOS)
        began = time.perf_counter()
        for _frame in FrameReader(video, scaled).read():
            pass
        return {"frames/s": frames / (time.perf_counter() - began)}

    def caption(mode: Mode) -> Mapping[str, float]:
        reading = VideoOptions() if mode in _FULL_SIZE else scaled
        sending = Sending(mode=mode, memory_limit_bytes=_MEMORY_LIMIT_BYTES)
        began = time.perf_counter()
        with load.measure_cpu(running.leaders) as cpu_s:
            captions = caption_video(path, server, reading, sending)
        cpu_ms = load.divide(cpu_s, len(captions))
        return {
            "frames/s": len(captions) / (time.perf_counter() - began),
            "right": sum(map(str.__eq__, captions, truth)) / len(truth),
            **{f"{program} cpu ms": ms for program, ms in cpu_ms.items()},
        }

    retries = RetryPolicy(timeout_s=_ANSWER_S)
    with ApiClient(running.url, retries, Sending.requests_in_flight) as server:
        scaled = VideoOptions(size=server.find_input())
        ways: dict[str, Callable[[], Mapping[str, float]]] = {
            **{mode.value: partial(caption, mode) for mode in modes},
            "decoding, scaling": decode,
        }
        return driver.take_turns(ways, rounds)


def find_video(cache: Path, frames: int, *, width: int, height: int) -> Path:
    """Return the video of this size, drawn once; every size shows the same scenes."""

    def make(part: Path) -> None:
        with av.open(part, "w") as container:
            stream = container.add_stream("libx264", _FRAMES_PER_S, options=_ENCODING)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for one in draw_clip(_SEED, frames, width=width, height=height):
                container.mux(stream.encode(VideoFrame.from_ndarray(one.picture)))
            container.mux(stream.encode())

    return keep(cache / f"shapes-{frames}-{width}x{height}.mp4", make)


def list_captions(frames: int) -> list[str]:
    """Return the captions of the video's frames."""
    return [scenes.describe(scene) for scene in plan_clip(_SEED, frames)]
