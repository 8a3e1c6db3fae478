"""Uploads are cut into rows, in little memory, however they arrive; refusals say why."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import (
    BodyTooLarge,
    InvalidImage,
    InvalidRequest,
    MalformedRequest,
    UnsupportedImage,
)
from gateway.settings import ROW_BYTES, Settings
from gateway.uploads.images import ROW_FRAMES, Cut, cut
from tests.contract.test_npy import UINT8, describe
from tests.gateway.uploads.test_forms import chop, join
from tests.handlers.encoding import write_npy as save

LIMITS = Settings(max_upload_bytes=500 << 20, max_image_bytes=32 << 20)
SMALL = Settings(max_upload_bytes=4000, max_image_bytes=1000)
MORE = "The body has more than 4000 bytes"
JPEG, PNG = b"\xff\xd8\xff\xe0 a photograph", b"\x89PNG\r\n\x1a\n a drawing"
WEBP = b"RIFF\x10\0\0\0WEBPVP8 a picture"
FORM = "multipart/form-data; boundary=xyz"
FIELD = b"--xyz\r\nContent-Disposition: form-data; name=top_k\r\n\r\n5\r\n" + join()


def count_up(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)


def cut_all(
    data: bytes, content_type: str = "", limits: Settings = LIMITS, **options: Any
) -> list[Cut]:
    return list(cut(iter([data]), content_type, limits, **options))


def load(rows: list[Cut]) -> list[np.ndarray]:
    return [np.load(io.BytesIO(row.body), allow_pickle=False) for row in rows]


def test_an_image_is_told_by_its_first_bytes_and_stays_as_it_is():
    assert cut_all(JPEG, "nonsense; =") == [Cut(JPEG, "image/jpeg")]
    assert cut_all(PNG, "image/gif") == [Cut(PNG, "image/png")]
    assert cut_all(WEBP, FORM) == [Cut(WEBP, "image/webp")]


@pytest.mark.parametrize(
    ("count", "places"),
    [
        (1, [""]),
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
    ("frame", "frames"), [((1024, 1024, 3), 2), ((3000, 2000, 3), 1)]
)
def test_a_row_of_large_frames_has_fewer_of_them_but_one_at_least(frame, frames):
    rows = cut_all(save(np.zeros((3, *frame), np.uint8)))
    assert rows[0].frames == frames
    assert sum(row.frames for row in rows) == 3
    most = max(ROW_BYTES, int(np.prod(frame)))
    assert all(len(row.body) <= most + 128 for row in rows)


def test_what_cannot_be_taken_is_refused_before_a_byte_of_it_is_read():
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}] * 3, dtype=object), allow_pickle=True)
    large = describe(UINT8 + "(1000000000, 2, 2, 3), }")

    def read(header: bytes) -> Iterator[bytes]:
        yield header
        raise AssertionError("more was read")

    with pytest.raises(InvalidImage, match="an array of object, expected one of uint8"):
        list(cut(read(file.getvalue()[:128]), "", LIMITS))
    with pytest.raises(BodyTooLarge, match="The array has 12000000000 bytes"):
        list(cut(read(large), "", LIMITS))


@pytest.mark.parametrize(
    ("data", "content_type", "problem", "detail"),
    [
        (b"RIFF\0\0\0\0WAVE", "", UnsupportedImage, "this is none of them"),
        (save(count_up(2, 2, 3)) + b"\0", "", InvalidImage, "12 bytes for its shape"),
        (save(count_up(2, 2, 3))[:60], "", InvalidImage, "header is damaged"),
        (join(), FORM, InvalidImage, "The form contains no file"),
        (join(b""), FORM, InvalidImage, "image 0: Nothing was sent"),
        (FIELD.replace(b"; name=top_k", b""), FORM, InvalidRequest, "body: found a"),
    ],
)
def test_what_is_no_upload_is_refused(data, content_type, problem, detail):
    with pytest.raises(problem) as caught:
        cut_all(data, content_type)
    assert detail in caught.value.detail


@pytest.mark.parametrize(
    ("data", "content_type", "detail"),
    [
        (join(JPEG, JPEG + b"a" * 1000), FORM, "image 1: The image has more than 1000"),
        (save(count_up(20, 20, 3)), "", "frame has 1200 bytes, expected at most 1000."),
        (describe(UINT8 + "(9, 18, 18, 3)}"), "", "The array has 8748 bytes, expected"),
        (join(*[JPEG] * 60), FORM, MORE),
        (save(count_up(3, 2, 3)) + b"a" * 4000, "", MORE),
    ],
)
def test_what_is_too_large_is_refused(data, content_type, detail):
    with pytest.raises(BodyTooLarge) as caught:
        cut_all(data, content_type, SMALL)
    assert detail in caught.value.detail


def test_an_upload_that_is_to_be_single_has_one_image_of_any_kind():
    for data, media in (
        (JPEG.ljust(1000), ""),  # as large as the limit
        (save(count_up(1, 2, 2, 3)), ""),
        (join(PNG), FORM),
    ):
        assert len(cut_all(data, media, SMALL, is_single=True)) == 1
    for data, media in ((save(count_up(2, 2, 2, 3)), ""), (join(JPEG, JPEG), FORM)):
        with pytest.raises(InvalidImage, match="Expected exactly one image"):
            cut_all(data, media, is_single=True)


def test_the_room_for_a_row_is_asked_for_before_it_is_held():
    grown: list[int] = []
    rows = cut(iter([save(count_up(64, 2, 2, 3))]), "", LIMITS, grow=grown.append)
    assert len(next(rows).body) == 128 + sum(grown) == 128 + 384
    grown.clear()
    assert len(next(rows).body) == 128 + sum(grown) == 128 + 384


KNOWN = (BodyTooLarge, InvalidImage, InvalidRequest, MalformedRequest, UnsupportedImage)
UPLOADS = {
    "image": (JPEG * 9, ""),
    "array": (save(count_up(70, 3, 2, 3)), ""),
    "form": (join(PNG, save(count_up(33, 2, 2, 3)), WEBP), FORM),
}


@pytest.mark.parametrize("kind", UPLOADS)
@given(sizes=st.lists(st.integers(0, 300), max_size=40))
def test_the_rows_are_the_same_whatever_the_pieces_are(kind, sizes):
    data, content_type = UPLOADS[kind]
    rows = list(cut(chop(data, *sizes), content_type, LIMITS))
    assert rows == cut_all(data, content_type)


@given(
    kind=st.sampled_from(sorted(UPLOADS)),
    at=st.integers(0, 700),
    gone=st.integers(0, 40),
    added=st.binary(max_size=40)
    | st.sampled_from([b"--xyz", b"\r\n", b"'", b"\\", b"9"]),
)
def test_a_damaged_upload_is_rows_or_a_problem(kind, at, gone, added):
    data, content_type = UPLOADS[kind]
    damaged = data[:at] + added + data[at + gone :]
    try:
        rows = cut_all(damaged, content_type, SMALL)
    except KNOWN:
        return
    assert rows
