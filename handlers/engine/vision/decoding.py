"""Decodes images and arrays into RGB frames, and refuses oversized ones before decoding."""

import io
import math
import re
import warnings
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, PngImagePlugin
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.WebPImagePlugin import WebPImageFile

from contract import npy

#: An array (height, width, 3) of red, green and blue from 0 to 255.
Frame = NDArray[np.uint8]

#: The largest allowed ratio of an image's sides. Image processors scale the shorter side, so a
#: line of pixels would outgrow any memory.
MAX_ASPECT = 100

#: The first bytes of files, and their readers. `Image.open` would detect the format itself,
#: but it has its own size limit.
_FORMATS: tuple[tuple[re.Pattern[bytes], type[ImageFile]], ...] = (
    (re.compile(rb"\xff\xd8\xff"), JpegImageFile),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), PngImagePlugin.PngImageFile),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), WebPImageFile),
)
#: The largest allowed number of scans of a JPEG file: each adds to all pixels, even if it takes
#: 30 bytes. Programs write about ten.
_MAX_SCANS = 100
#: A marker of a segment in a JPEG file. Where libjpeg expects a restart, it skips all others.
_MARKER = re.compile(rb"\xff[\xc0-\xcf\xd8-\xfe]")
_PILLOW = re.compile(r"PIL\.")
#: The largest text of a PNG file. Pillow's 1 MiB is too little for some.
PngImagePlugin.MAX_TEXT_CHUNK = 16 << 20
# Colour profiles change nothing here, and a file can hold minutes of decompressing them.
del PngImagePlugin.PngStream.chunk_iCCP


class ImageError(ValueError):
    """A body cannot be decoded; the message compares it with the expected input."""


class UnknownImageFormat(ImageError):
    """The body is in none of the supported formats."""


def decode_frames(data: bytes | bytearray, *, max_pixels: int) -> list[Frame]:
    """Decode a `.npy` array of one frame (H, W, 3) or several (N, H, W, 3), or a JPEG, PNG or
    WebP file, into frames of at most `max_pixels` pixels each.

    Only the first frame of an animation is decoded. Images are turned upright according to
    their EXIF data, and transparent pixels become white. Raises ImageError.
    """
    if data.startswith(npy.MAGIC):
        return list(_read_array(data, max_pixels))
    for beginning, reader in _FORMATS:
        if beginning.match(data):
            return [_read_file(data, reader, max_pixels)]
    found = f"bytes that begin with {data[:4].hex(' ')}" if data else "nothing"
    raise UnknownImageFormat(
        "expected an image file (JPEG, PNG or WebP) or a .npy array of frames, found "
        f"{found}"
    )


def _read_array(data: bytes | bytearray, max_pixels: int) -> NDArray[np.uint8]:
    try:
        start = npy.measure(bytes(data[: npy.START_BYTES]))
        shape = npy.read_shape(bytes(data[:start]))
    except npy.HeaderError as error:
        raise ImageError(str(error)) from error
    height, width = shape[-3:-1]
    _check_size(width, height, max_pixels)
    expected = math.prod(shape)
    found = len(data) - start
    if found != expected:
        raise ImageError(
            f"expected {expected} bytes of pixels for the shape {shape}, found {found}"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(-1, height, width, 3)


def _read_file(
    data: bytes | bytearray, reader: type[ImageFile], max_pixels: int
) -> Frame:
    _silence_pillow()
    try:
        with reader(io.BytesIO(data)) as image:
            _check_size(*image.size, max_pixels)
            if reader is JpegImageFile:
                _check_scans(data)
            image.load()
            if image.mode == "L" and "transparency" in image.info:
                # Pillow scales greys of 2 or 4 bits, except the transparent one.
                image.info["transparency"] *= 255 // ((1 << data[24]) - 1)
            with suppress(Exception):  # damaged EXIF data turns nothing
                ImageOps.exif_transpose(image, in_place=True)
            return np.asarray(_convert(image))
    except (ImageError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(
            f"expected at most {max_pixels} pixels, found an image with many more"
        ) from error
    except Exception as error:
        # Pillow's readers raise all kinds of errors on bad bytes.
        raise ImageError(
            f"expected an intact {reader.format} file, found a damaged one"
        ) from error


def _convert(image: Image.Image) -> Image.Image:
    """The image in RGB."""
    if image.mode.startswith("I"):
        # Pillow would clip 16-bit greys at 255.
        values = np.asarray(image).astype(np.int64)
        grey = values.clip(0, 0xFFFF) >> 8
        grey[values == image.info.get("transparency", -1)] = 0xFF
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise ImageError(
            f"expected at most {max_pixels} pixels, found {width} x {height}, "
            f"which is {width * height}"
        )
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError(
            f"expected no side more than {MAX_ASPECT} times as long as the other, found "
            f"{width} x {height}"
        )


def _check_scans(data: bytes | bytearray) -> None:
    at, scans = 2, 0
    while (found := _MARKER.search(data, at)) and found[0] != b"\xff\xd9":
        at = found.end()
        scans += found[0] == b"\xff\xda"
        if scans > _MAX_SCANS:
            raise ImageError(f"expected at most {_MAX_SCANS} scans, found more")
        at += int.from_bytes(data[at : at + 2], "big")


def _silence_pillow() -> None:
    """Silence Pillow's warnings about large images, which are refused here, and EXIF data. The
    filter applies to the process, because a context manager's would not be thread-safe."""
    if ("ignore", None, Warning, _PILLOW, 0) not in warnings.filters:
        warnings.filterwarnings("ignore", module=_PILLOW.pattern)
