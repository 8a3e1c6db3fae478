"""An upload becomes the same rows in whatever pieces it comes, in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

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
from gateway.settings import ROW_BYTES
from gateway.uploads.rows import UploadLimits, cut
from tests.contract.test_npy import UINT8, describe
from tests.gateway.uploads.test_forms import chop, join
from tests.gateway.uploads.test_rows import (
    FORM,
    JPEG,
    LIMITS,
    PNG,
    SMALL,
    WEBP,
    count_up,
    cut_all,
)
from tests.handlers.encoding import write_npy as save

PROBLEMS = (
    *(BodyTooLarge, InvalidImage, InvalidRequest, MalformedRequest, UnsupportedImage),
)
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
    except PROBLEMS:
        return
    assert rows


@given(
    text=st.text("(){}[]',:.0123456789LuU|<>=-+*'\\ \nTrueFalsdcptnh_", max_size=300)
)
def test_a_header_of_any_text_is_rows_or_a_problem(text):
    with pytest.raises(InvalidImage):
        cut_all(describe(text))


@pytest.mark.parametrize(
    ("head", "tail", "content_type"),
    [
        (describe(UINT8 + "(200, 1024, 1024, 3)}"), b"", ""),
        pytest.param(
            join(describe(UINT8 + "(200, 1024, 1024, 3)}")).removesuffix(
                b"\r\n--xyz--\r\n"
            ),
            b"\r\n--xyz--\r\n",
            FORM,
        ),
    ],
    ids=["array", "form"],
)
def test_of_a_large_array_no_more_than_two_rows_are_in_memory(head, tail, content_type):
    frame = bytes(1 << 18)

    def read() -> Iterator[bytes]:
        yield head
        for _ in range(200 * 12):
            yield frame
        yield tail

    frames = 0
    tracemalloc.start()
    try:
        for row in cut(read(), content_type, UploadLimits(1 << 30, 1 << 30)):
            frames += row.frames
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frames == 200
    assert peak < 2 * ROW_BYTES + (4 << 20)
