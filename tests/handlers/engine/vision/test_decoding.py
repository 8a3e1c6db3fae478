"""Any bytes become frames, or an error that states the expected input."""

import tracemalloc
import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from contract import npy
from handlers.engine.vision.decoding import (
    MAX_ASPECT,
    ImageError,
    UnknownImageFormat,
    decode_frames,
)
from tests.handlers.encoding import write_image, write_npy
from tests.random_vision import draw_frames

MAX_PIXELS = 10_000
(FRAME,) = draw_frames(1, height=20, width=30)
FRAMES = np.stack(draw_frames(3, height=8, width=6))
LEFT_TOP, RIGHT_TOP = FRAME[0, 0].tolist(), FRAME[0, -1].tolist()


def read(data: bytes, max_pixels: int = MAX_PIXELS) -> list[np.ndarray]:
    return decode_frames(data, max_pixels=max_pixels)


def make_exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


@pytest.mark.parametrize(
    ("array", "expected"),
    [(FRAMES, FRAMES), (FRAMES[0], FRAMES[:1]), (FRAMES[:, ::2], FRAMES[:, ::2])],
    ids=["several", "one", "every other row"],
)
def test_an_array_holds_its_frames(array: Any, expected: Any):
    frames = read(write_npy(array))
    assert len(frames) == len(expected)
    for frame, wanted in zip(frames, expected, strict=True):
        assert frame.shape == wanted.shape
        assert np.array_equal(frame, wanted)


WRONG_ARRAYS = {
    "floats": (write_npy(FRAMES / 255), "found an array of float64"),
    "too large": (
        write_npy(np.zeros((101, 100, 3), np.uint8)),
        "expected at most 10000 pixels, found 100 x 101, which is 10100",
    ),
    "too narrow": (
        write_npy(np.zeros((MAX_ASPECT + 1, 1, 3), np.uint8)),
        "expected no side more than 100 times as long as the other, found 1 x 101",
    ),
    "a byte missing": (
        write_npy(FRAMES)[:-1],
        "expected 432 bytes of pixels for the shape (3, 8, 6, 3)",
    ),
    "more than any memory has": (
        npy.write_header((10**17, 3, 3, 3)),
        f"expected {27 * 10**17} bytes of pixels",
    ),
}


@pytest.mark.parametrize(
    ("data", "says"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS.keys()
)
def test_another_array_is_refused(data: bytes, says: str):
    with pytest.raises(ImageError) as refusal:
        read(data)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("format", "options"),
    [("PNG", {}), ("WEBP", {"lossless": True}), ("JPEG", {"quality": 95})],
    ids=["PNG", "WebP", "JPEG"],
)
@pytest.mark.parametrize("orientation", [1, 6])
def test_an_image_file_is_one_upright_frame(format, options, orientation):
    # 6 means: rotate it to the right
    sent = np.rot90(FRAME) if orientation == 6 else FRAME
    exif = make_exif(orientation)
    (frame,) = read(write_image(sent, format, exif=exif, **options))
    assert frame.shape == FRAME.shape
    assert frame.dtype == np.uint8
    tolerance = 12 if format == "JPEG" else 0
    assert abs(frame[2, 2].astype(int) - LEFT_TOP).max() <= tolerance
    assert abs(frame[2, -2].astype(int) - RIGHT_TOP).max() <= tolerance


PICTURE = Image.fromarray(FRAME)
SHADES = np.array([[0, 255, 256, 65535]], np.uint16).repeat(4, axis=0)
MASKED = Image.fromarray(SHADES)
MASKED.info["transparency"] = 256


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (PICTURE.convert("L"), PICTURE.convert("L").convert("RGB")),
        (Image.fromarray(SHADES), Image.fromarray((SHADES >> 8).astype(np.uint8))),
        (MASKED, Image.fromarray(SHADES > 255)),
        (Image.new("RGBA", (4, 4), (9, 9, 9, 0)), Image.new("RGB", (4, 4), "white")),
        (Image.new("RGBA", (4, 4), "#00000080"), Image.new("RGB", (4, 4), "#7f7f7f")),
    ],
    ids=["grey", "16 bits", "masked", "transparent", "half transparent"],
)
def test_every_kind_of_image_becomes_rgb(image: Image.Image, expected: Image.Image):
    (frame,) = read(write_image(image))
    assert np.array_equal(frame, np.asarray(expected.convert("RGB")))


@pytest.mark.parametrize("format", ["PNG", "WEBP"])
def test_of_a_moving_image_the_first_frame_is_taken(format: str):
    others = [Image.new("RGB", PICTURE.size, "red")]
    moving = {"save_all": True, "append_images": others, "lossless": True}
    (frame,) = read(write_image(PICTURE, format, **moving))
    assert np.array_equal(frame, FRAME)


@pytest.mark.parametrize("format", ["PNG", "WEBP", "JPEG"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_truncated_file_is_refused(format: str, share: float):
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    data = write_image(noise, format)
    said = f"expected an intact {format} file, found a dam"
    with pytest.raises(ImageError, match=said):
        read(data[: int(len(data) * share)])


@pytest.mark.parametrize(
    "data",
    [b"", b"GIF89a", b"BM", b"II*\0", b"%PDF-1.4", b"hello", b"RIFF1234WAVE", b"\x93"],
    ids=["nothing", "GIF", "BMP", "TIFF", "PDF", "text", "sound", "half a magic"],
)
def test_another_format_is_unsupported(data: bytes):
    with pytest.raises(UnknownImageFormat) as refusal:
        read(data)
    assert "expected an image file (JPEG, PNG or WebP) or a .npy" in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_a_renamed_format_is_not_read_by_another_reader():
    """Pillow reads many more formats than we accept."""
    gif = write_image(FRAME, "GIF")
    with pytest.raises(ImageError):
        read(b"\xff\xd8\xff" + gif)


def change_header(png: bytes, width: int, height: int, depth: int) -> bytes:
    """A PNG that claims to have this size, and this many bits per sample."""
    sides = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data = png[:16] + sides + bytes([depth]) + png[25:29]
    return data + zlib.crc32(data[12:]).to_bytes(4, "big") + png[33:]


@pytest.mark.parametrize(("depth", "key"), [(2, 1), (4, 5), (8, 0x55)])
def test_a_transparent_grey_of_any_depth_becomes_white(depth: int, key: int):
    png = write_image(Image.new("L", (1, 1), 0x55), transparency=key)
    (frame,) = read(change_header(png, 8 // depth, 1, depth))
    assert (frame == 255).all()


def make_bomb(width: int, height: int) -> bytes:
    return change_header(write_image(Image.new("1", (8, 8))), width, height, 1)


@pytest.mark.parametrize(
    ("width", "height"),
    [(101, 100), (10_000, 10_000), (50_000, 50_000), (2**31 - 1, 1)],
)
def test_a_decompression_bomb_is_refused_before_it_goes_off(width: int, height: int):
    bomb = make_bomb(width, height)
    read(make_bomb(8, 8))
    tracemalloc.start()
    with pytest.raises(ImageError, match="expected at most 10000 pixels, found"):
        read(bomb)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_webp_that_is_a_bomb_is_refused():
    data = bytearray(write_image(FRAME, "WEBP", exif=make_exif(1)))
    assert data[12:16] == b"VP8X"
    data[24:30] = b"\xff\x3f\x00" * 2
    with pytest.raises(ImageError, match="expected at most 10000 pixels, found"):
        read(bytes(data))


def test_a_jpeg_of_many_scans_is_refused_before_each_is_added_to_all_pixels():
    data = write_image(FRAME, "JPEG", progressive=True)
    last, film = data[data.rfind(b"\xff\xda") : -2], b"\xff\xda" * 200
    read(data[:-2] + last * 80 + data[-2:] + film)
    for before in (b"", b"\xff\x02\xff\xff"):  # no segment, which could hide the scans
        with pytest.raises(ImageError, match="expected at most 100 scans, found more"):
            read(data[:-2] + before + last * 200 + data[-2:])


def test_pillows_own_limit_is_no_limit_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert np.array_equal(read(write_image(FRAME))[0], FRAME)


DAMAGED = make_exif(6)[:10] + b"\xff\xff\xff\xff" + make_exif(6)[14:]


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    "exif",
    [make_exif(9), DAMAGED, b"Exif\0\0gone"],
    ids=["no way", "damaged", "overwritten"],
)
def test_exif_data_that_says_nothing_turns_nothing_and_warns_of_nothing(exif, format):
    data = write_image(FRAME, format, exif=exif)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (frame,) = read(data)
    assert caught == []
    assert frame.shape == FRAME.shape


@pytest.mark.parametrize(("format", "mib"), [("JPEG", 3), ("PNG", 17), ("WEBP", 3)])
def test_a_large_colour_profile_does_not_matter(format: str, mib: int):
    (frame,) = read(write_image(FRAME, format, icc_profile=bytes(mib << 20)))
    assert frame.shape == FRAME.shape


FILES = [
    write_npy(FRAMES),
    write_image(FRAME),
    write_image(PICTURE.quantize(8), transparency=0),
    write_image(FRAME, "JPEG", exif=make_exif(6)),
    write_image(FRAME, "JPEG", progressive=True),
    write_image(FRAME, "WEBP", exif=make_exif(6)),
    write_image(PICTURE, "WEBP", save_all=True, append_images=[PICTURE.rotate(90)]),
    write_image(PICTURE, save_all=True, append_images=[PICTURE.rotate(90)]),
]


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """A file with some bytes changed, and perhaps a part of it missing or repeated."""
    data = bytearray(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(data) - 1))
        data[place] = draw(st.integers(0, 255))
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, len(data)))
    change = draw(st.sampled_from(["keep", "cut", "remove", "repeat"]))
    if change == "cut":
        del data[end:]
    elif change == "remove":
        del data[start:end]
    elif change == "repeat":
        data[end:end] = data[start:end]
    return bytes(data)


@given(damaged_files())
def test_a_damaged_file_gives_frames_or_an_image_error(data: bytes):
    """pytest's filter turns every warning into an error."""
    try:
        frames = read(data)
    except ImageError:
        return
    assert frames
    for frame in frames:
        assert frame.dtype == np.uint8
        height, width, colours = frame.shape
        assert (0 < height * width <= MAX_PIXELS, colours) == (True, 3)
