"""Captions for rows of one frame and of many, merged into batches and dealt out again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlers.captioning import CaptioningHandler
from handlers.engine.errors import OutOfMemory
from handlers.engine.vision.decoding import Frame
from handlers.engine.vision.engine import Image
from tests.handlers.encoding import write_image, write_npy
from tests.handlers.fakes import FakeMetrics, ask, ask_one
from tests.handlers.test_vision import limit_memory, start
from tests.random_vision import draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

#: Numbers of frames, each of one client and of a size of its own.
ROWS = [
    draw_frames(count, height=height, width=width, seed=seed)
    for seed, (count, height, width) in enumerate(
        [(3, 64, 64), (1, 30, 50), (4, 64, 64), (2, 50, 30), (5, 10, 10)]
    )
]


@pytest.fixture(scope="module")
def handler(blip2: Path) -> Any:
    return start("captioning", blip2, {"max_batch_frames": 4})


def write(rows: Sequence[Sequence[Frame]]) -> list[bytes]:
    return [write_npy(np.stack(frames)) for frames in rows]


def test_every_frame_has_its_caption_in_order(handler: CaptioningHandler):
    expected = [
        [
            ask_one(handler, write_image(frame)).content["captions"][0]
            for frame in frames
        ]
        for frames in ROWS
    ]
    said = {caption for captions in expected for caption in captions}
    assert len(said) > 4, "the model says the same of everything"
    answers = ask(handler, write(ROWS))
    assert [answer.content for answer in answers] == [
        {"captions": captions} for captions in expected
    ]


def test_frames_of_all_rows_are_read_in_packs(
    handler: CaptioningHandler, monkeypatch: pytest.MonkeyPatch
):
    packs = limit_memory(monkeypatch, handler, "captioning", 4)
    metrics = FakeMetrics()
    ask(handler, write(ROWS), metrics=metrics)
    assert packs == [4, 4, 4, 3]
    assert metrics.counters["BabelgateFrames"] == 15
    assert metrics.counters["BabelgateRows"] == 5
    assert metrics.counters["BabelgateHalvedPacks"] == 0


def test_a_bad_row_among_them_shifts_no_caption(handler: CaptioningHandler):
    expected = [answer.content for answer in ask(handler, write(ROWS))]
    first, *others = write(ROWS)
    answers = ask(handler, [first, first[:-1], *others])
    assert answers.pop(1).status == 422
    assert [answer.content for answer in answers] == expected


def test_a_frame_that_does_not_fit_costs_its_own_row(
    handler: CaptioningHandler, monkeypatch: pytest.MonkeyPatch
):
    expected = ask(handler, write(ROWS))
    caption = handler.engine.caption

    def caption_small(images: Sequence[Image]) -> list[str]:
        if any(image.height == 30 for image in images):
            raise OutOfMemory("out of memory")
        return caption(images)

    monkeypatch.setattr(handler.engine, "caption", caption_small)
    answers = ask(handler, write(ROWS))
    assert [answer.status for answer in answers] == [200, 503, 200, 200, 200]
    for i in (0, 2, 3, 4):
        assert answers[i].content == expected[i].content


def test_a_caption_is_as_long_as_the_map_allows(blip2: Path):
    handler = start("captioning", blip2, {"max_tokens": 2})
    captions = ask_one(handler, write(ROWS)[2]).content["captions"]
    assert max(len(caption.split()) for caption in captions) == 2


def test_a_model_is_warm_when_it_is_ready(blip2: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []

    def caption(self: object, images: Sequence[Image]) -> list[str]:
        calls.append(len(images))
        return [""] * len(images)

    monkeypatch.setattr(
        "handlers.engine.vision.captioner.CaptioningEngine.caption", caption
    )
    start("captioning", blip2)
    assert calls == [1]
