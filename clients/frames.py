"""The frames of a video, and which of them are wanted in which size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from clients.errors import ClientError

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
    """The choice of frames: every n-th, or the first one in every stretch of `seconds`."""

    frames: int = 1
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Every:
        """`10`, `1s` or `0.5s`; raises ClientError for anything else."""
        try:
            every = (
                cls(seconds=float(text[:-1]))
                if text.endswith("s")
                else cls(frames=int(text))
            )
        except ValueError:
            every = cls(frames=0)
        step = every.frames if every.seconds is None else every.seconds
        if not 0 < step < math.inf:
            raise ClientError(
                f"--every {text}: expected a number of frames such as 10, or seconds such as "
                "1s or 0.5s"
            )
        return every


@dataclass(frozen=True)
class VideoOptions:
    """The options of reading videos."""

    every: Every = Every()
    #: The size that frames are scaled to; None leaves them as they are.
    size: FrameSize | None = None
    decode_threads: int = 2


@dataclass(frozen=True)
class Frame:
    """One image of a video."""

    #: Its number among all frames of the video, from 0.
    index: int
    #: From the video's beginning.
    time_s: float
    #: (height, width, 3), contiguous.
    pixels: Pixels
