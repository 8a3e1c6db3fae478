"""The numbers and pictures that the tasks which take images read of a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from handlers.base import Row, TaskError
from handlers.images import read_picture, read_pictures, read_share, read_whole
from tests.handlers.encoding import write_npy
from tests.random_vision import draw_frames


def read_five(parameters: Mapping[str, str]) -> int:
    return read_whole(parameters, "top_k", least=1, most=100, default=5)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [({}, 5), ({"top_k": "1"}, 1), ({"top_k": "100"}, 100), ({"top_k": "007"}, 7)],
    ids=str,
)
def test_a_whole_number_is_read(parameters: Mapping[str, str], expected: int):
    assert read_five(parameters) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "101",
        "-1",
        "+5",
        " 5",
        "5.0",
        "1e1",
        "1_0",
        "٥",
        "²",
        "five",
        "9" * 5000,
    ],
    ids=lambda text: text[:8],
)
def test_what_is_no_whole_number_is_refused(text: str):
    with pytest.raises(TaskError) as refusal:
        read_five({"top_k": text})
    assert refusal.value.slug == "invalid-request"
    assert refusal.value.detail == "top_k: expected a whole number from 1 to 100"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, 0.5),
        ({"threshold": "0"}, 0),
        ({"threshold": "1"}, 1),
        ({"threshold": ".3"}, 0.3),
    ],
    ids=str,
)
def test_a_share_is_read(parameters: Mapping[str, str], expected: float):
    assert read_share(parameters, "threshold", default=0.5) == expected


@pytest.mark.parametrize("text", ["", "-0.1", "1.01", "nan", "inf", "half", "1e999"])
def test_what_is_no_share_is_refused(text: str):
    with pytest.raises(TaskError) as refusal:
        read_share({"threshold": text}, "threshold", default=0.5)
    assert refusal.value.slug == "invalid-request"
    assert refusal.value.detail == "threshold: expected a number from 0 to 1"


@pytest.mark.parametrize(
    ("body", "status", "slug", "says"),
    [
        (
            b"GIF89a",
            415,
            "unsupported-image",
            "Expected an image file (JPEG, PNG or WebP)",
        ),
        (b"", 415, "unsupported-image", "found nothing."),
        ({"a": 1}, 415, "unsupported-image", "found nothing."),
        ("text", 415, "unsupported-image", "found nothing."),
        (
            write_npy(np.zeros(3)),
            422,
            "invalid-image",
            "Found an array of float64",
        ),
        (write_npy(np.zeros((9, 9, 3), np.uint8)), 422, "invalid-image", "at most 64 "),
        (b"\xff\xd8\xff", 422, "invalid-image", "Expected a whole JPEG file, found a"),
    ],
    ids=["GIF", "nothing", "JSON", "text", "floats", "too large", "damaged"],
)
def test_what_is_no_picture_is_refused(body: object, status: int, slug: str, says: str):
    with pytest.raises(TaskError) as refusal:
        read_pictures(Row(body), 64)
    assert (refusal.value.status, refusal.value.slug) == (status, slug)
    assert says in refusal.value.detail


def test_where_one_picture_is_wanted_several_are_refused():
    frames = np.stack(draw_frames(2, height=8, width=8))
    (frame,) = read_pictures(Row(write_npy(frames[0])), 64)
    assert np.array_equal(frame, frames[0])
    assert np.array_equal(read_picture(Row(write_npy(frames[:1])), 64), frames[0])
    with pytest.raises(TaskError, match=r"Expected one picture, found 2 frames\."):
        read_picture(Row(write_npy(frames)), 64)
