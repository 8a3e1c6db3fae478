"""Real videos of a few frames: the selection, times, sizes and orientation of frames."""

import io
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.decoding import FrameReader
from clients.errors import ClientError
from clients.files import VIDEOS, find_sources
from clients.frames import (
    Batch,
    Every,
    Frame,
    FrameSize,
    Prebatch,
    VideoOptions,
    pack_frames,
)
from tests.clients.drawing import read_number, write_numbers, write_sound, write_video


def read(
    path: Path, reading: VideoOptions | None = None, skip: int = 0
) -> tuple[FrameReader, list[Frame]]:
    """Read a video, and return the finished reader and its frames."""
    (video,) = find_sources([str(path)], VIDEOS)
    reader = FrameReader(video, reading or VideoOptions())
    return reader, list(reader.read(skip))


def list_numbers(frames: list[Frame]) -> list[int]:
    return [read_number(frame.pixels) for frame in frames]


@pytest.mark.parametrize(
    ("name", "codec", "size"),
    [
        ("a.mp4", "libx264", (48, 128)),
        ("a.mkv", "libx264", (48, 128)),
        ("a.avi", "mpeg4", (48, 128)),
        ("a.webm", "libvpx-vp9", (48, 128)),
        ("10:30.ts", "mpeg2video", (48, 128)),
        ("odd.mkv", "ffv1", (47, 131)),
        ("raw.h264", "libx264", (48, 128)),
    ],
)
def test_frames_come_in_order_with_their_times(
    tmp_path, monkeypatch, name, codec, size
):
    monkeypatch.chdir(tmp_path)
    height, width = size
    write_numbers(tmp_path / name, 12, height=height, width=width, codec=codec)
    reader, frames = read(Path(name), VideoOptions(decode_threads=3))
    assert reader.error is None
    assert list_numbers(frames) == list(range(12))
    assert [frame.index for frame in frames] == list(range(12))
    assert [frame.time_s for frame in frames] == [n / 10 for n in range(12)]
    assert {frame.pixels.shape for frame in frames} == {(height, width, 3)}
    assert all(frame.pixels.flags.c_contiguous for frame in frames)
    assert reader.end_s == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("every", "indexes"),
    [
        ("1", list(range(25))),
        ("10", [0, 10, 20]),
        ("1s", [0, 10, 20]),
        ("0.3s", [0, 3, 6, 9, 12, 15, 18, 21, 24]),
        ("0.25s", [0, 3, 5, 8, 10, 13, 15, 18, 20, 23]),
        ("60s", [0]),
    ],
)
def test_every_says_which_frames_are_taken(tmp_path, every, indexes):
    path = write_numbers(tmp_path / "a.mp4", 25)
    _, frames = read(path, VideoOptions(Every.parse(every)))
    assert [frame.index for frame in frames] == indexes
    assert list_numbers(frames) == indexes


@pytest.mark.parametrize(
    "every", ["0", "-1", "s", "0s", "1m", "nans", "infs", "", "1.5"]
)
def test_every_that_means_nothing_is_refused(every):
    with pytest.raises(ClientError, match="expected a number of frames such as 10"):
        Every.parse(every)


def test_a_variable_frame_rate_keeps_its_times(tmp_path):
    times_ms = [0, 40, 80, 1000, 1040, 3500, 3540]
    path = write_numbers(tmp_path / "a.mkv", 7, times_ms=times_ms)
    _, frames = read(path)
    assert [frame.time_s for frame in frames] == [time / 1000 for time in times_ms]
    # After several seconds without a frame, the next one counts once.
    _, frames = read(path, VideoOptions(Every.parse("1s")))
    assert [frame.index for frame in frames] == [0, 3, 5]


COLOURS = {
    "red": (220, 20, 20),
    "green": (20, 200, 20),
    "blue": (20, 20, 220),
    "white": (235, 235, 235),
}


def draw_quarters(height: int, width: int) -> Any:
    """A picture with red and green above blue and white."""
    picture = np.zeros((height, width, 3), np.uint8)
    halves = (slice(None, height // 2), slice(height // 2, None))
    sides = (slice(None, width // 2), slice(width // 2, None))
    places = [(half, side) for half in halves for side in sides]
    for place, colour in zip(places, COLOURS.values(), strict=True):
        picture[place] = colour
    return picture


def name_quarters(pixels: Any) -> str:
    """The names of the quarters' colours, in reading order."""
    height, width, _ = pixels.shape
    rows, columns = (height // 4, 3 * height // 4), (width // 4, 3 * width // 4)
    return " ".join(
        name
        for y, x in product(rows, columns)
        for name, colour in COLOURS.items()
        if np.abs(pixels[y, x].astype(int) - colour).sum() < 40
    )


ONE = 1 << 16


@pytest.mark.parametrize(
    ("matrix", "is_turned", "quarters"),
    [
        (None, False, "red green blue white"),
        ((ONE, 0, 0, ONE), False, "red green blue white"),
        ((0, ONE, -ONE, 0), True, "blue red white green"),
        ((-ONE, 0, 0, -ONE), False, "white blue green red"),
        ((0, -ONE, ONE, 0), True, "green white red blue"),
        ((-ONE, 0, 0, ONE), False, "green red white blue"),
        ((ONE, 0, 0, -ONE), False, "blue white red green"),
        ((0, ONE, ONE, 0), True, "red blue green white"),
        ((0, -ONE, -ONE, 0), True, "white green blue red"),
    ],
    ids="none upright right over left mirrored flipped transposed transversed".split(),
)
@pytest.mark.parametrize("size", [None, FrameSize(30, 50)])
def test_pictures_are_upright(tmp_path, matrix, is_turned, quarters, size):
    a, b, c, d = matrix or (ONE, 0, 0, ONE)
    whole = [a, b, 0, c, d, 0, 0, 0, 1 << 30] if matrix else None
    picture = draw_quarters(64, 96)
    path = write_video(tmp_path / "a.mp4", [picture] * 2, matrix=whole)
    _, frames = read(path, VideoOptions(size=size))
    upright = (96, 64) if is_turned else (64, 96)
    expected = (size.height, size.width) if size else upright
    assert [frame.pixels.shape for frame in frames] == [(*expected, 3)] * 2
    assert {name_quarters(frame.pixels) for frame in frames} == {quarters}


@pytest.mark.parametrize("size", [FrameSize(16, 24), FrameSize(128, 96)])
def test_scaled_frames_have_the_mean_of_what_they_show(tmp_path, size):
    """Every other column is red: the result must not depend on which columns are sampled."""
    picture = np.zeros((96, 128, 3), np.uint8)
    picture[:, ::2] = (200, 0, 0)
    path = write_video(tmp_path / "a.mkv", [picture], codec="ffv1")
    _, (frame,) = read(path, VideoOptions(size=size))
    assert frame.pixels.shape == (size.height, size.width, 3)
    inner = frame.pixels[4:-4, 4:-4].reshape(-1, 3).mean(axis=0)
    assert inner == pytest.approx([100, 0, 0], abs=3)


def test_colours_keep_their_sharpness_in_small_pictures(tmp_path):
    """swscale's default would mix the colours of every two pixels."""
    picture = np.zeros((320, 320, 3), np.uint8)
    picture[:, 150:160] = (255, 0, 0)
    picture[:, 160:170] = (0, 0, 255)
    path = write_video(tmp_path / "a.mp4", [picture])
    _, (frame,) = read(path, VideoOptions(size=FrameSize(32, 32)))
    red, blue = frame.pixels[16, 15].astype(int), frame.pixels[16, 16].astype(int)
    assert min(red[0], blue[2]) > 200
    assert max(red[2], blue[0]) < 60


@pytest.mark.parametrize(
    ("name", "codec", "reason"),
    [
        ("a.mp4", "libx264", "invalid data found when processing input"),
        ("a.mkv", "ffv1", "cut off before its stated end at 10.0 s"),
    ],
)
def test_a_video_that_was_cut_off_ends_with_its_place(tmp_path, name, codec, reason):
    path = write_numbers(tmp_path / name, 100, codec=codec, share=0.65)
    reader, frames = read(path)
    assert 10 < len(frames) < 90
    assert list_numbers(frames) == list(range(len(frames)))
    place = f"at {len(frames) / 10:.3f} s (frame {len(frames)})"
    assert reader.error == f"{path}: {place}: {reason}"


def test_what_is_no_video_is_named(tmp_path):
    empty, text = tmp_path / "a.mp4", tmp_path / "b.mp4"
    empty.touch()
    text.write_bytes(b"no video at all" * 99)
    sound = write_sound(tmp_path / "c.m4a")
    for path in (empty, text, sound):
        reader, frames = read(path)
        reason = "contains no video stream" if path == sound else "invalid data"
        assert frames == []
        assert f"{path.name}: {reason}" in (reader.error or "")


def make_frames(*sizes: int) -> list[Frame]:
    """Make frames 100 pixels wide, each filled with its number."""
    return [
        Frame(number, number / 10, np.full((rows, 100, 3), number, np.uint8))
        for number, rows in enumerate(sizes)
    ]


def open_body(batch: Batch) -> Any:
    return np.load(io.BytesIO(b"".join(batch.body)), allow_pickle=False)


@pytest.mark.parametrize(
    ("sizes", "prebatch", "lengths"),
    [
        ([10] * 70, "auto", [32, 32, 6]),
        ([10] * 7, "3", [3, 3, 1]),
        ([10] * 64, "64", [64]),
        ([10] * 3, "1", [1, 1, 1]),
        ([7000] * 7, "auto", [3, 3, 1]),
        ([30_000, 30_000, 10], "auto", [1, 1, 1]),
        ([10, 10, 20, 20, 20, 10], "auto", [2, 3, 1]),
        ([], "auto", []),
    ],
    ids="auto number exact one large too-large-for-two size-changes none".split(),
)
def test_frames_are_packed_in_order(sizes, prebatch, lengths):
    frames = make_frames(*sizes)
    batches = list(pack_frames(3, frames, Prebatch.parse(prebatch)))
    assert [len(batch.frames) for batch in batches] == lengths
    indexes = [index for batch in batches for index in batch.frames]
    assert indexes == list(range(len(sizes)))
    for batch in batches:
        assert batch.video == 3
        assert batch.times_s == tuple(index / 10 for index in batch.frames)
        array = open_body(batch)
        assert array.dtype == np.uint8
        assert array.shape == (len(batch.frames), sizes[batch.frames[0]], 100, 3)
        assert array[:, 0, 0, 0].tolist() == list(batch.frames)


def test_large_pixels_are_not_copied():
    (frame,) = make_frames(7000)
    (batch,) = pack_frames(0, [frame], Prebatch())
    frame.pixels[0, 0] = 77
    assert open_body(batch)[0, 0, 0].tolist() == [77, 77, 77]


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5", "²"])
def test_a_prebatch_that_is_no_number_is_refused(text):
    with pytest.raises(ClientError, match="expected auto or a number of frames"):
        Prebatch.parse(text)
