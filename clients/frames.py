"""The frames of a video: their selection, their size, and their packing into request bodies,
which are `.npy` arrays as the server expects them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from clients.bulk import pack
from clients.errors import ClientError
from contract.npy import write_header

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FrameSize:
    """The size of a frame, in pixels."""

    height: int
    width: int


@dataclass(frozen=True)
class Every:
    """The selection of frames: every n-th, or the first one in each interval of `seconds`."""

    frames: int = 1
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Every:
        """Parse `10`, `1s` or `0.5s`. Raises ClientError for anything else."""
        number = text.removesuffix("s")
        try:
            step = int(text) if number == text else float(number)
        except ValueError:
            step = 0
        if not 0 < step < math.inf:
            raise ClientError(
                f"--every {text}: expected a number of frames such as 10, or seconds such as "
                "1s or 0.5s"
            )
        return cls(frames=step) if isinstance(step, int) else cls(seconds=step)


@dataclass(frozen=True)
class VideoOptions:
    """The options for reading videos."""

    every: Every = Every()
    #: The size to scale frames to; None leaves them as they are.
    size: FrameSize | None = None
    decode_threads: int = 2


@dataclass(frozen=True)
class Frame:
    """One image of a video."""

    #: Its number among all frames of the video, from 0.
    index: int
    #: Time since the video's beginning.
    time_s: float
    #: (height, width, 3), contiguous.
    pixels: Pixels


#: The number of frames in a batch of the server: more would not make a request faster.
AUTO_FRAMES = 32
AUTO_BYTES = 8 << 20
#: Below the 500 MB that a server accepts.
MOST_BYTES = 256 << 20
#: Up to this size, a copy costs less than sending the frames one by one.
_JOINED_BYTES = 1 << 20


@dataclass(frozen=True)
class Prebatch:
    """The most frames and bytes in one request. A larger frame is sent alone."""

    frames: int = AUTO_FRAMES
    size_bytes: int = AUTO_BYTES

    @classmethod
    def parse(cls, text: str) -> Prebatch:
        """Parse `auto` or a number of frames. Raises ClientError for anything else."""
        if text == "auto":
            return cls()
        if not (text.isascii() and text.isdigit() and int(text)):
            raise ClientError(
                f"--prebatch {text}: expected auto or a number of frames such as 32"
            )
        return cls(int(text), MOST_BYTES)


@dataclass(frozen=True)
class Batch:
    """One request: some frames of one video."""

    #: The index of the video.
    video: int
    frames: tuple[int, ...]
    times_s: tuple[float, ...]
    #: The parts of the body, sent one after the other.
    body: tuple[bytes | memoryview, ...]


def pack_frames(
    video: int, frames: Iterable[Frame], prebatch: Prebatch
) -> Iterator[Batch]:
    """Pack frames of the same size into batches."""
    for _, alike in groupby(frames, key=lambda frame: frame.pixels.shape):
        for packed in pack(
            alike,
            lambda frame: (1, frame.pixels.nbytes),
            prebatch.frames,
            prebatch.size_bytes,
        ):
            yield _write_batch(video, packed)


def _write_batch(video: int, frames: Sequence[Frame]) -> Batch:
    pixels = [frame.pixels.data.cast("B") for frame in frames]
    header = write_header((len(frames), *frames[0].pixels.shape))
    body: tuple[bytes | memoryview, ...] = (header, *pixels)
    is_small = sum(map(len, pixels)) <= _JOINED_BYTES
    return Batch(
        video,
        tuple(frame.index for frame in frames),
        tuple(frame.time_s for frame in frames),
        (b"".join(body),) if is_small else body,
    )
