"""The captioning benchmark's own arithmetic, its video, and how it deals out the cores."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest

from benchmarks.instruments.processes import deal_cores
from benchmarks.measure import captioning
from benchmarks.measure.videos import find_video, list_captions
from clients.decoding import FrameReader
from clients.frames import FrameSize, VideoOptions
from clients.sources import VIDEOS, find_sources

TURNS = {
    ("480x270", "decoding, scaling"): [
        captioning.CaptionTurn(900.0),
        captioning.CaptionTurn(900.0),
    ],
    ("480x270", "single"): [
        captioning.CaptionTurn(50.0, 0.9, {"gateway": 2.0}),
        captioning.CaptionTurn(40.0, 1.0, {"gateway": 4.0}),
    ],
    ("480x270", "stream-prebatch"): [
        captioning.CaptionTurn(300.0, 1.0),
        captioning.CaptionTurn(320.0, 1.0),
    ],
    ("1920x1080", "stream-prebatch"): [
        *(captioning.CaptionTurn(240.0, 1.0), captioning.CaptionTurn(160.0, 1.0))
    ],
}


def test_ways_are_compared_round_by_round():
    ratios = captioning.list_ratios(TURNS)
    single = ratios["stream-prebatch / single, 480x270"]
    assert (single.median, single.low, single.high) == (7, 6, 8)
    last = ratios["stream-prebatch, 1920x1080 / 480x270"]
    assert (last.low, last.high) == (0.5, 0.8)
    assert "stream-prebatch / single, 1920x1080" not in ratios


def test_a_row_has_the_medians_of_its_rounds():
    rows = {row[:2]: row[2:] for row in captioning.describe(TURNS).table.rows}
    assert rows["480x270", "single"] == ("45.0 (40.0–50.0)", "0.95", "3.00")
    assert rows["480x270", "decoding, scaling"] == ("900 (900–900)", "–", "–")


def test_the_video_is_drawn_once_and_has_its_frames(tmp_path: Path):
    video = find_video(tmp_path, 5, width=96, height=64)
    made = video.stat().st_mtime_ns
    assert find_video(tmp_path, 5, width=96, height=64) == video
    assert video.stat().st_mtime_ns == made
    assert list(tmp_path.iterdir()) == [video]
    (found,) = find_sources([str(video)], VIDEOS)
    frames = list(FrameReader(found, VideoOptions(), threading.Event()).read())
    assert [frame.pixels.shape for frame in frames] == [(64, 96, 3)] * 5
    assert len(list_captions(5)) == 5
    assert captioning.read_size("96x64") == FrameSize(height=64, width=96)


def test_the_cores_are_dealt_out_and_given_back():
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        with pytest.raises(ValueError, match="one core"), deal_cores({}):
            pass
        return
    child = psutil.Popen(["sleep", "60"])
    try:
        with deal_cores({"stack": child}):
            mine, its = os.sched_getaffinity(0), set(child.cpu_affinity())
            assert mine
            assert mine.isdisjoint(its)
            assert mine | its == before
        assert os.sched_getaffinity(0) == set(child.cpu_affinity()) == before
    finally:
        child.kill()
        child.wait()
