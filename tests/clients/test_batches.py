"""The content of one request."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from clients.batches import Batch, Prebatch, pack
from clients.errors import ClientError
from clients.frames import Frame


def make_frames(*sizes: int) -> list[Frame]:
    """Frames of 100 pixels in width, each filled with its number."""
    return [
        Frame(number, number / 10, np.full((rows, 100, 3), number, np.uint8))
        for number, rows in enumerate(sizes)
    ]


def open_body(batch: Batch) -> Any:
    return np.load(io.BytesIO(b"".join(batch.body)), allow_pickle=False)


@pytest.mark.parametrize(
    ("sizes", "prebatch", "lengths"),
    [
        ([10] * 70, "auto", [32, 32, 6]),
        ([10] * 7, "3", [3, 3, 1]),
        ([10] * 64, "64", [64]),
        ([10] * 3, "1", [1, 1, 1]),
        ([7000] * 7, "auto", [3, 3, 1]),
        ([30_000, 30_000, 10], "auto", [1, 1, 1]),
        ([10, 10, 20, 20, 20, 10], "auto", [2, 3, 1]),
        ([], "auto", []),
    ],
    ids="auto number exact one large too-large-for-two size-changes none".split(),
)
def test_frames_are_packed_in_order(sizes, prebatch, lengths):
    frames = make_frames(*sizes)
    batches = list(pack(3, frames, Prebatch.parse(prebatch)))
    assert [len(batch.frames) for batch in batches] == lengths
    assert [index for batch in batches for index in batch.frames] == list(
        range(len(sizes))
    )
    for batch in batches:
        assert batch.video == 3
        assert batch.times_s == tuple(index / 10 for index in batch.frames)
        array = open_body(batch)
        assert array.dtype == np.uint8
        assert array.shape == (len(batch.frames), sizes[batch.frames[0]], 100, 3)
        assert array[:, 0, 0, 0].tolist() == list(batch.frames)


def test_large_pixels_are_not_copied():
    (frame,) = make_frames(7000)
    (batch,) = pack(0, [frame], Prebatch())
    frame.pixels[0, 0] = 77
    assert open_body(batch)[0, 0, 0].tolist() == [77, 77, 77]


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5", "²"])
def test_a_prebatch_that_is_no_number_is_refused(text):
    with pytest.raises(ClientError, match="expected auto or a number of frames"):
        Prebatch.parse(text)
