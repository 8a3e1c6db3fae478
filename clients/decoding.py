"""Reads a video's frames: sampled, upright, in RGB and optionally scaled. Requires PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.sidedata.sidedata import Type as SideDataType
from av.video.reformatter import Interpolation, VideoReformatter

from clients.errors import InputError
from clients.files import Source
from clients.frames import Frame, FrameSize, VideoOptions

if TYPE_CHECKING:
    from clients.frames import Pixels

#: Times in a file are rounded to its time base: a frame this close to its due time is on time.
_TOLERANCE_S = 1e-6
#: A file that ends this much before its stated length has been truncated.
_MISSING_S = 1.0


class FrameReader:
    """A reader of one video, for a single pass from its beginning."""

    def __init__(self, video: Source, reading: VideoOptions) -> None:
        self.video = video
        #: The fault that ended the reading, with its place.
        self.error: str | None = None
        #: The end of the last frame read.
        self.end_s = 0.0
        #: The video's length, stated or estimated; 0 if unknown.
        self.length_s = 0.0
        self._reading = reading
        self._index = 0
        self._due_s = 0.0
        self._scale = VideoReformatter()

    def read(self, skip: int = 0) -> Iterator[Frame]:
        """Yield the wanted frames, without the first `skip`, up to the first fault."""
        try:
            # A relative `10:30.mp4` would be a URL. Older programs' tags are not UTF-8.
            path = self.video.path.absolute()
            with av.open(path, metadata_errors="replace") as container:
                yield from self._read_frames(container, skip)
        except (av.FFmpegError, OSError) as error:
            self.error = self._locate(error.strerror or str(error))
        except InputError as error:
            self.error = self._locate(str(error))

    def _read_frames(self, container: Any, skip: int) -> Iterator[Frame]:
        if not container.streams.video:
            raise InputError("contains no video stream")
        stream = container.streams.video[0]
        if stream.codec_context is None:
            raise InputError("unknown video codec")
        stream.thread_type = "AUTO"
        stream.thread_count = self._reading.decode_threads
        stated_s = _find_stated_length(container, stream)
        self.length_s = stated_s or (container.duration or 0) / av.time_base
        start_s = (container.start_time or 0) / av.time_base
        orientation: Orientation | None = None
        for frame in container.decode(stream):
            orientation = orientation or Orientation.of(frame)
            time_s = self._follow(frame, stream, start_s)
            if self._is_wanted(self._index, time_s):
                if skip == 0:
                    pixels = self._convert(frame, orientation)
                    yield Frame(self._index, round(time_s, 3), pixels)
                skip = max(0, skip - 1)
            self._index += 1
        if self._index == 0:
            raise InputError("contains no readable frame")
        if self.end_s < stated_s - _MISSING_S:
            raise InputError(f"cut off before its stated end at {stated_s:.1f} s")

    def _follow(self, frame: Any, stream: Any, start_s: float) -> float:
        """Return the frame's time; in raw streams, which have none, the last frame's end."""
        time_s = self.end_s
        if frame.pts is not None:
            time_s = max(0.0, float(frame.pts * frame.time_base) - start_s)
        if frame.duration:
            self.end_s = time_s + float(frame.duration * frame.time_base)
        else:
            self.end_s = time_s + 1 / float(stream.guessed_rate or 25)
        return time_s

    def _is_wanted(self, index: int, time_s: float) -> bool:
        every = self._reading.every
        if every.seconds is None:
            return index % every.frames == 0
        late_s = time_s + _TOLERANCE_S
        if late_s < self._due_s:
            return False
        self._due_s = (late_s // every.seconds + 1) * every.seconds
        return True

    def _convert(self, frame: Any, orientation: Orientation) -> Pixels:
        size = self._reading.size or orientation.turn(
            FrameSize(frame.height, frame.width)
        )
        stored = orientation.turn(size)
        pixels: Any = self._scale.reformat(
            frame,
            stored.width,
            stored.height,
            "rgb24",
            interpolation=choose_filter(FrameSize(frame.height, frame.width), stored),
            threads=1,
        ).to_ndarray()
        return np.ascontiguousarray(orientation.apply(pixels))

    def _locate(self, reason: str) -> str:
        place = f"at {self.end_s:.3f} s (frame {self._index}): " if self._index else ""
        return f"{self.video.name}: {place}{reason[:1].lower()}{reason[1:]}"


@dataclass(frozen=True)
class Orientation:
    """The transformation that makes a stored frame upright: transpose first, then mirror."""

    is_transposed: bool = False
    is_mirrored: bool = False
    is_upside_down: bool = False

    @classmethod
    def of(cls, frame: Any) -> Orientation:
        """Return the orientation in the frame's display matrix; upright if it has none."""
        matrix = frame.side_data.get(SideDataType.DISPLAYMATRIX)
        if matrix is None:
            return cls()
        # x' = ax + cy, y' = bx + dy. `frame.rotation` would lose mirrored pictures.
        (a, b, _), (c, d, _), _ = np.frombuffer(matrix, np.int32).reshape(3, 3).tolist()
        if abs(b) > abs(a):
            return cls(is_transposed=True, is_mirrored=c < 0, is_upside_down=b < 0)
        return cls(is_mirrored=a < 0, is_upside_down=d < 0)

    def turn(self, size: FrameSize) -> FrameSize:
        """Convert a stored size to the upright one, or the reverse."""
        return FrameSize(size.width, size.height) if self.is_transposed else size

    def apply(self, pixels: Pixels) -> Pixels:
        if self.is_transposed:
            pixels = pixels.swapaxes(0, 1)
        if self.is_mirrored:
            pixels = pixels[:, ::-1]
        return pixels[::-1] if self.is_upside_down else pixels


def choose_filter(source: FrameSize, target: FrameSize) -> Interpolation:
    """Choose the best filter for its cost: area averaging if the source is at least twice as
    large. Without FULL_CHR_H_INT swscale halves the horizontal colour resolution."""
    is_much_smaller = 2 * target.height <= source.height and (
        2 * target.width <= source.width
    )
    kind = Interpolation.AREA if is_much_smaller else Interpolation.BICUBIC
    return kind | Interpolation.FULL_CHR_H_INT


def _find_stated_length(container: Any, stream: Any) -> float:
    """Return the length stated in the file, in seconds; 0 if there is none."""
    if container.format.name.startswith("mov,mp4") and stream.duration:
        return float(stream.duration * stream.time_base)
    # Matroska states it in a tag; the lengths of other formats are libav's estimates.
    try:
        hours, minutes, seconds = map(float, stream.metadata["DURATION"].split(":"))
    except (KeyError, ValueError):
        return 0.0
    return 3600 * hours + 60 * minutes + seconds
