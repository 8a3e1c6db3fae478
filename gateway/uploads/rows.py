"""Cuts an upload into rows while it arrives: an image file becomes one row, an array
several small ones. Memory never holds more than one row of it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from werkzeug.http import parse_options_header

from contract import npy
from gateway.errors import BodyTooLarge, InvalidImage, UnsupportedImage
from gateway.http.bodies import limit
from gateway.settings import ROW_BYTES
from gateway.uploads.forms import Form, Stream, find_boundary

#: An array is cut into rows of at most this many frames, and `ROW_BYTES`.
ROW_FRAMES = 32

_EXPECTED = (
    "a JPEG, PNG or WebP file, a .npy array, or multipart/form-data with such files"
)
#: A WebP file begins with these; its length stands between them.
_RIFF, _WEBP = b"RIFF", b"WEBP"
_HEAD_BYTES = 12
_CONTENT_TYPES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


@dataclass(frozen=True)
class UploadLimits:
    """The most bytes of an upload, and of one image or frame."""

    max_upload_bytes: int
    max_image_bytes: int


@dataclass(frozen=True)
class Cut:
    """A row, and its place in the upload. `place` is empty if it is all of it."""

    body: bytes
    content_type: str
    frames: int = 1
    place: str = ""


Grow = Callable[[int], None]


def cut(
    chunks: Iterator[bytes],
    content_type: str,
    limits: UploadLimits,
    *,
    is_single: bool = False,
    grow: Grow = lambda _: None,
) -> Iterator[Cut]:
    """The rows of an upload. The first bytes of `chunks` tell its kind; if they are not an
    image, `content_type` may name a form. With `is_single`, a second image is refused. `grow`
    is told how many bytes will be added to a row, and may wait for room.

    Raises UnsupportedImage, InvalidImage, InvalidRequest, MalformedRequest or BodyTooLarge.
    """
    cutter = _Cutter(limits, grow)
    most = limits.max_upload_bytes
    detail = f"The body has more than {most} bytes, the most it may."
    stream = Stream(limit(chunks, most, detail))
    is_form = parse_options_header(content_type)[0] == "multipart/form-data"
    head = stream.peek(_HEAD_BYTES)
    is_known = head.startswith(npy.MAGIC) or _find_content_type(head)
    if is_form and not is_known:
        rows = cutter.cut_parts(Form(stream, find_boundary(content_type)))
    else:
        rows = cutter.cut_file(stream)
    frames = 0
    for row in rows:
        frames += row.frames
        if is_single and frames > 1:
            raise InvalidImage("Expected exactly one image or frame, found more.")
        yield row
        del row  # its bytes, while the next one is read
    if not frames:
        raise InvalidImage(f"The form has no file in it, expected {_EXPECTED}.")


def _find_content_type(head: bytes) -> str | None:
    """The content type of an image file with these first bytes."""
    if head.startswith(_RIFF) and head[8:12] == _WEBP:
        return "image/webp"
    return next(
        (kind for magic, kind in _CONTENT_TYPES.items() if head.startswith(magic)), None
    )


@dataclass(frozen=True)
class _Cutter:
    limits: UploadLimits
    grow: Grow

    def cut_parts(self, form: Form) -> Iterator[Cut]:
        """The rows of all files. A problem names its file."""
        for index, part in enumerate(form):
            where = f"image {index}"
            try:
                for row in self.cut_file(part):
                    place = f"{where}, {row.place}" if row.place else where
                    yield replace(row, place=place)
                    del row  # its bytes, while the next one is read
            except (BodyTooLarge, InvalidImage, UnsupportedImage) as problem:
                problem.detail = f"{where}: {problem.detail}"
                raise

    def cut_file(self, stream: Stream) -> Iterator[Cut]:
        """The rows of one file, up to the end of `stream`."""
        head = stream.peek(_HEAD_BYTES)
        if head.startswith(npy.MAGIC):
            yield from self._cut_array(stream)
        elif content_type := _find_content_type(head):
            yield Cut(self._take_image(stream), content_type)
        elif head:
            raise UnsupportedImage(f"Expected {_EXPECTED}; this is none of them.")
        else:
            raise InvalidImage(f"Nothing was sent, expected {_EXPECTED}.")

    def _take_image(self, stream: Stream) -> bytes:
        most, body = self.limits.max_image_bytes, io.BytesIO()
        if self._copy(stream, body, most) == most and stream.peek(1):
            detail = f"The image has more than {most} bytes, the most it may."
            raise BodyTooLarge(detail)
        return body.getvalue()

    def _cut_array(self, stream: Stream) -> Iterator[Cut]:
        shape = _read_shape(stream)
        count, frame = (shape[0] if len(shape) == 4 else 1), shape[-3:]
        size = prod(frame)
        self._check_size(count, size)
        at_once = max(1, min(ROW_FRAMES, ROW_BYTES // size))
        for first in range(0, count, at_once):
            frames = min(at_once, count - first)
            body = io.BytesIO()
            shown = (frames, *frame) if len(shape) == 4 else frame
            body.write(npy.write_header(shown))
            found = self._copy(stream, body, frames * size)
            if found < frames * size:
                raise InvalidImage(
                    f"The array is cut off: expected {count * size} bytes for its shape "
                    f"{shape}, found {first * size + found}."
                )
            last = first + frames - 1
            place = f"frame {first}" if frames == 1 else f"frames {first}-{last}"
            place = place if count > 1 else ""
            yield Cut(body.getvalue(), "application/octet-stream", frames, place)
        if stream.peek(1):
            raise InvalidImage(
                f"The array goes on after its end: expected {count * size} bytes for its "
                f"shape {shape}, found more."
            )

    def _check_size(self, count: int, size: int) -> None:
        """Before any of it is read."""
        if size > (most := self.limits.max_image_bytes):
            raise BodyTooLarge(f"A frame has {size} bytes, it may have {most}.")
        if count * size > (most := self.limits.max_upload_bytes):
            raise BodyTooLarge(
                f"The array has {count * size} bytes, it may have {most}."
            )

    def _copy(self, stream: Stream, body: io.BytesIO, count: int) -> int:
        """Copies at most `count` bytes and returns how many there were."""
        found = 0
        while found < count and (taken := stream.take(count - found)):
            self.grow(len(taken))
            found += body.write(taken)
        return found


def _read_shape(stream: Stream) -> tuple[int, ...]:
    """The shape of an array of frames. Only its pixels are left in `stream`."""
    try:
        size = npy.measure(stream.peek(npy.START_BYTES))
        return npy.read_shape(stream.take_all(size))
    except npy.HeaderError as error:
        text = str(error)
        raise InvalidImage(f"{text[0].upper()}{text[1:]}.") from error
