"""The captioning benchmark's own arithmetic, its video, and how it deals out the cores."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest

from benchmarks.instruments.load import deal_cores
from benchmarks.measure import captioning
from benchmarks.measure.captioning import find_video, list_captions
from clients.decoding import FrameReader
from clients.files import VIDEOS, find_sources
from clients.frames import FrameSize, VideoOptions


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
