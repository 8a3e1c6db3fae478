"""Writes videos that show numbers, in several codecs, and reads the numbers in their frames."""

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

#: Bits of a frame's number, shown as black and white bars.
BITS = 8


def draw_number(number: int, height: int, width: int) -> Any:
    bits = [number >> bit & 1 for bit in range(BITS)]
    columns = np.arange(width) * BITS // width
    row = np.array(bits, np.uint8)[columns] * 255
    return np.broadcast_to(row[None, :, None], (height, width, 3)).copy()


def read_number(pixels: Any) -> int:
    height, width, _ = pixels.shape
    centres = [(2 * bit + 1) * width // (2 * BITS) for bit in range(BITS)]
    row = pixels[height // 2].mean(axis=1)
    return sum(int(row[centre] > 127) << bit for bit, centre in enumerate(centres))


def write_video(
    path: Path,
    pictures: Sequence[Any],
    *,
    codec: str = "libx264",
    rate: int = 10,
    times_ms: Sequence[int] | None = None,
    matrix: Sequence[int] | None = None,
    share: float = 1,
) -> Path:
    """Write pictures of one size as a video. A `share` below 1 cuts the file off after this
    share of its bytes; the beginning of an MP4 can be read without the end."""
    options = {"movflags": "faststart"} if share < 1 else {}
    height, width, _ = pictures[0].shape
    how: Any = {"options": options, "metadata_encoding": "latin-1"}
    with av.open(path, "w", **how) as container:
        container.metadata["title"] = "Numéros"
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height = width, height
        stream.pix_fmt = "bgr0" if codec == "ffv1" else "yuv420p"
        if times_ms:
            stream.codec_context.time_base = Fraction(1, 1000)
        if matrix:
            stream.set_display_matrix(matrix)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if times_ms:
                frame.pts, frame.time_base = times_ms[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    os.truncate(path, int(share * path.stat().st_size))
    return path


def write_numbers(
    path: Path, count: int, *, height: int = 64, width: int = 128, **options: Any
) -> Path:
    """Write a video whose frames show 0, 1, 2 …"""
    pictures = [draw_number(number % 256, height, width) for number in range(count)]
    return write_video(path, pictures, **options)


def write_sound(path: Path) -> Path:
    """Write a file that has sound but no pictures."""
    with av.open(path, "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(
            np.zeros((1, 1024), np.float32), format="fltp", layout="mono"
        )
        frame.rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
