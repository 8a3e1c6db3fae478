"""Cutting an upload into rows, and the words of refusals."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gateway.errors import BodyTooLarge, InvalidImage, UnsupportedImage
from gateway.settings import ROW_BYTES
from gateway.uploads.rows import ROW_FRAMES, Cut, UploadLimits, cut
from tests.contract.test_npy import UINT8, describe
from tests.gateway.uploads.test_forms import join
from tests.handlers.encoding import write_npy as save

LIMITS = UploadLimits(max_upload_bytes=500 << 20, max_image_bytes=32 << 20)
SMALL = UploadLimits(max_upload_bytes=4000, max_image_bytes=1000)
JPEG, PNG = b"\xff\xd8\xff\xe0 a photograph", b"\x89PNG\r\n\x1a\n a drawing"
WEBP = b"RIFF\x10\0\0\0WEBPVP8 a picture"
FORM = "multipart/form-data; boundary=xyz"
BINARY = "application/octet-stream"


def count_up(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)


def cut_all(
    data: bytes, content_type: str = "", limits: UploadLimits = LIMITS, **options: Any
) -> list[Cut]:
    return list(cut(iter([data]), content_type, limits, **options))


def load(rows: list[Cut]) -> list[np.ndarray]:
    return [np.load(io.BytesIO(row.body), allow_pickle=False) for row in rows]


@pytest.mark.parametrize(
    ("data", "content_type", "said"),
    [
        (JPEG, "image/jpeg", ""),
        (PNG, "image/png", "image/gif"),
        (WEBP, "image/webp", FORM),
        (JPEG, "image/jpeg", "nonsense; ="),
    ],
)
def test_an_image_is_told_by_its_first_bytes_and_stays_as_it_is(
    data, content_type, said
):
    assert cut_all(data, said) == [Cut(data, content_type)]


def test_one_frame_is_one_row():
    frame = count_up(5, 4, 3)
    (row,) = cut_all(save(frame), "image/jpeg")
    assert (row.content_type, row.frames, row.place) == (BINARY, 1, "")
    np.testing.assert_array_equal(load([row])[0], frame)


@pytest.mark.parametrize(
    ("count", "places"),
    [
        (1, [""]),
        (ROW_FRAMES, [f"frames 0-{ROW_FRAMES - 1}"]),
        (ROW_FRAMES + 1, [f"frames 0-{ROW_FRAMES - 1}", f"frame {ROW_FRAMES}"]),
        (70, ["frames 0-31", "frames 32-63", "frames 64-69"]),
    ],
)
def test_many_frames_are_rows_that_say_which_they_are(count, places):
    frames = count_up(count, 2, 3, 3)
    rows = cut_all(save(frames))
    assert [row.place for row in rows] == places
    assert all(array.shape[1:] == (2, 3, 3) for array in load(rows))
    np.testing.assert_array_equal(np.concatenate(load(rows)), frames)
    assert [row.frames for row in rows] == [len(array) for array in load(rows)]


@pytest.mark.parametrize(
    ("frame", "frames"),
    [
        ((1024, 1024, 3), 2),
        ((2048, 1365, 3), 1),
        ((2048, 1366, 3), 1),
        ((3000, 2000, 3), 1),
    ],
)
def test_a_row_of_large_frames_has_fewer_of_them_but_one_at_least(frame, frames):
    rows = cut_all(save(np.zeros((3, *frame), np.uint8)))
    assert rows[0].frames == frames
    assert sum(row.frames for row in rows) == 3
    most = max(ROW_BYTES, int(np.prod(frame)))
    assert all(len(row.body) <= most + 128 for row in rows)


def test_the_files_of_a_form_are_rows_in_its_order():
    frames = count_up(40, 2, 2, 3)
    rows = cut_all(join(PNG, save(frames), JPEG), FORM)
    assert [(row.place, row.frames) for row in rows] == [
        ("image 0", 1),
        ("image 1, frames 0-31", 32),
        ("image 1, frames 32-39", 8),
        ("image 2", 1),
    ]
    assert (rows[0].body, rows[3].body) == (PNG, JPEG)
    np.testing.assert_array_equal(np.concatenate(load(rows[1:3])), frames)


def test_a_pickle_is_refused_before_a_byte_of_it_is_read():
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}] * 3, dtype=object), allow_pickle=True)
    header = file.getvalue()[:128]

    def read() -> Iterator[bytes]:
        yield header
        raise AssertionError("the pickle was read")

    with pytest.raises(InvalidImage, match="an array of object, expected one of uint8"):
        list(cut(read(), "", LIMITS))


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        pytest.param(save(count_up(2, 2, 3))[:60], "header is damaged", id="fields"),
        pytest.param(b"\x93NUMPY\4\0", "Found version 4 of .npy", id="start"),
    ],
)
def test_a_damaged_header_is_refused(data, detail):
    with pytest.raises(InvalidImage) as caught:
        cut_all(data)
    assert detail in caught.value.detail


@pytest.mark.parametrize("missing", [1, 12, 24 * 12])
def test_an_array_that_is_cut_off_says_how_much_of_it_there_is(missing):
    data = save(count_up(24, 2, 2, 3))
    with pytest.raises(InvalidImage) as caught:
        cut_all(data[:-missing])
    assert caught.value.detail == (
        "The array is cut off: expected 288 bytes for its shape (24, 2, 2, 3), "
        f"found {288 - missing}."
    )


def test_the_rows_before_a_cut_are_there_already():
    rows = cut(iter([save(count_up(70, 2, 2, 3))[:-1]]), "", LIMITS)
    assert [next(rows).frames, next(rows).frames] == [32, 32]
    with pytest.raises(InvalidImage, match="expected 840 bytes .*, found 839"):
        next(rows)


def test_an_array_that_goes_on_after_its_end_is_refused():
    with pytest.raises(InvalidImage, match="expected 12 bytes .*, found more"):
        cut_all(save(count_up(2, 2, 3)) + b"\0")


@pytest.mark.parametrize(
    ("data", "content_type", "problem", "detail"),
    [
        (b"", "", InvalidImage, "Nothing was sent, expected a JPEG, PNG or WebP file"),
        (b"GIF89a", "image/gif", UnsupportedImage, "Expected a JPEG, PNG or WebP"),
        (b"RIFF\0\0\0\0WAVE", "", UnsupportedImage, "this is none of them"),
        (b'{"a": 1}', "application/json", UnsupportedImage, "this is none of them"),
        (join(), FORM, InvalidImage, "The form has no file in it"),
        (join(b""), FORM, InvalidImage, "image 0: Nothing was sent"),
        (join(PNG, b"abc"), FORM, UnsupportedImage, "image 1: Expected a JPEG"),
    ],
)
def test_what_is_no_upload_is_refused(data, content_type, problem, detail):
    with pytest.raises(problem) as caught:
        cut_all(data, content_type)
    assert detail in caught.value.detail


@pytest.mark.parametrize(
    ("data", "content_type", "detail"),
    [
        (JPEG + b"a" * 1000, "", "The image has more than 1000 bytes"),
        (join(JPEG, JPEG + b"a" * 1000), FORM, "image 1: The image has more than 1000"),
        (save(count_up(20, 20, 3)), "", "A frame has 1200 bytes, it may have 1000."),
        (describe(UINT8 + "(9, 18, 18, 3)}"), "", "The array has 8748 bytes, it may"),
        (join(*[JPEG] * 60), FORM, "The body has more than 4000 bytes"),
        (
            save(count_up(3, 2, 3)) + b"a" * 4000,
            "",
            "The body has more than 4000 bytes",
        ),
    ],
)
def test_what_is_too_large_is_refused(data, content_type, detail):
    with pytest.raises(BodyTooLarge) as caught:
        cut_all(data, content_type, SMALL)
    assert detail in caught.value.detail


def test_an_image_may_be_as_large_as_the_limit():
    image = JPEG.ljust(1000)
    assert [row.body for row in cut_all(image, limits=SMALL)] == [image]


def test_a_size_that_is_too_large_is_refused_before_a_pixel_is_read():
    header = describe(UINT8 + "(1000000000, 2, 2, 3), }")

    def read() -> Iterator[bytes]:
        yield header
        raise AssertionError("pixels were read")

    with pytest.raises(BodyTooLarge, match="The array has 12000000000 bytes"):
        list(cut(read(), "", LIMITS))


@pytest.mark.parametrize(
    ("data", "content_type"),
    [(save(count_up(2, 2, 2, 3)), ""), (join(JPEG, JPEG), FORM)],
)
def test_of_an_upload_that_is_to_be_single_a_second_image_is_refused(
    data, content_type
):
    with pytest.raises(InvalidImage, match="Expected exactly one image"):
        cut_all(data, content_type, is_single=True)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [(JPEG, ""), (save(count_up(1, 2, 2, 3)), ""), (join(PNG), FORM)],
)
def test_a_single_image_may_be_of_every_kind(data, content_type):
    assert len(cut_all(data, content_type, is_single=True)) == 1


def test_the_room_for_a_row_is_asked_for_before_it_is_held():
    grown: list[int] = []
    rows = cut(iter([save(count_up(64, 2, 2, 3))]), "", LIMITS, grow=grown.append)
    assert len(next(rows).body) == 128 + sum(grown) == 128 + 384
    grown.clear()
    assert len(next(rows).body) == 128 + sum(grown) == 128 + 384
