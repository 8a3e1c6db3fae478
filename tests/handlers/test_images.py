"""The images that the tasks which take images read of a row."""

from __future__ import annotations

import numpy as np
import pytest

from handlers.base import Row, TaskError
from handlers.images import read_frame, read_frames
from tests.handlers.encoding import write_npy
from tests.random_vision import draw_frames


@pytest.mark.parametrize(
    ("body", "status", "slug", "says"),
    [
        (b"GIF89a", 415, "unsupported-image", "Expected an image file (JPEG, PNG "),
        (b"", 415, "unsupported-image", "found nothing."),
        ({"a": 1}, 415, "unsupported-image", "found nothing."),
        (write_npy(np.zeros(3)), 422, "invalid-image", "Found an array of float64"),
        (write_npy(np.zeros((9, 9, 3), np.uint8)), 422, "invalid-image", "at most 64 "),
        (b"\xff\xd8\xff", 422, "invalid-image", "Expected a whole JPEG file, found a"),
    ],
    ids=["GIF", "nothing", "JSON", "floats", "too large", "damaged"],
)
def test_what_is_no_image_is_refused(body: object, status: int, slug: str, says: str):
    with pytest.raises(TaskError) as refusal:
        read_frames(Row(body), 64)
    assert (refusal.value.status, refusal.value.slug) == (status, slug)
    assert says in refusal.value.detail


def test_where_one_image_is_wanted_several_are_refused():
    frames = np.stack(draw_frames(2, height=8, width=8))
    (frame,) = read_frames(Row(write_npy(frames[0])), 64)
    assert np.array_equal(frame, frames[0])
    assert np.array_equal(read_frame(Row(write_npy(frames[:1])), 64), frames[0])
    with pytest.raises(TaskError, match=r"Expected one image, found 2 frames\."):
        read_frame(Row(write_npy(frames)), 64)
