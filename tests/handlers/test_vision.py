"""The common behaviour of image tasks, as TorchServe calls them."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contract.tasks import find_class
from handlers.base import Row, TaskError, TaskHandler
from handlers.engine.errors import OutOfMemory
from handlers.engine.vision.decoding import Frame
from handlers.engine.vision.engine import Image
from handlers.images import read_frame, read_frames
from handlers.schemas import ClassificationRow, DetectionRow
from tests.handlers.conftest import FindModel
from tests.handlers.encoding import write_image, write_npy
from tests.handlers.fakes import (
    Answer,
    FakeMetrics,
    ask,
    ask_one,
    make_context,
    make_options,
)
from tests.random_vision import draw_frames

#: A model for each task.
TASKS = {"captioning": "blip2", "classification": "resnet", "detection": "rt-detr"}
BODIES = [
    write_image(draw_frames(1)[0]),
    write_image(draw_frames(1, height=50, width=90, seed=1)[0], "JPEG", quality=95),
    write_image(draw_frames(1, height=30, width=30, seed=2)[0], "WEBP", lossless=True),
    write_npy(draw_frames(1, height=70, width=40, seed=3)[0]),
    write_npy(np.stack(draw_frames(1, seed=4))),
]


def start(
    task: str, directory: Path, options: Mapping[str, Any] | None = None
) -> TaskHandler[Any]:
    handler: TaskHandler[Any] = find_class("handlers", task)()
    given = {"max_pixels": 10_000, **(options or {})}
    config = make_options(task, directory, **given)
    handler.initialize(make_context(config={"handler": config}))
    return handler


@pytest.fixture(scope="module", params=TASKS)
def handler(request: pytest.FixtureRequest, find_model: FindModel) -> TaskHandler[Any]:
    return start(request.param, find_model(TASKS[request.param]))


def limit_memory(
    monkeypatch: pytest.MonkeyPatch, handler: Any, images: int
) -> list[int]:
    """Limit the model's memory to `images` images, and return the sizes of its batches."""
    batches: list[int] = []
    compute = handler.compute

    def compute_if_it_fits(items: Sequence[Any]) -> Any:
        batches.append(len(items))
        if len(items) > images:
            raise OutOfMemory("out of memory")
        return compute(items)

    monkeypatch.setattr(handler, "compute", compute_if_it_fits)
    return batches


def read(answer: Answer) -> Any:
    """The content without the model and the compute time."""
    content = answer.content
    assert content.pop("compute_ms") > 0
    assert content.pop("model")
    return content


def check_alike(found: Any, expected: Any) -> None:
    """Check that contents are the same, except for rounding."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            check_alike(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_alike(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=0.11 if expected > 1 else 2e-4)
    else:
        assert found == expected


def check_all_alike(answers: Sequence[Answer], expected: Sequence[Answer]) -> None:
    assert {answer.status for answer in answers} == {200}
    for answer, other in zip(answers, expected, strict=True):
        check_alike(read(answer), read(other))


def test_a_row_is_answered_alike_alone_and_in_a_batch(handler: TaskHandler[Any]):
    alone = [ask_one(handler, body) for body in BODIES]
    assert len({json.dumps(read(answer)) for answer in alone}) == len(alone)
    check_all_alike(ask(handler, BODIES), alone)
    check_all_alike(ask(handler, BODIES[::-1]), alone[::-1])


def test_what_does_not_fit_into_memory_is_run_in_halves(handler, monkeypatch):
    expected = ask(handler, BODIES)
    batches = limit_memory(monkeypatch, handler, 2)
    metrics = FakeMetrics()
    check_all_alike(ask(handler, BODIES, metrics=metrics), expected)
    assert batches == [5, 2, 3, 1, 2]
    assert metrics.counters["BabelgateHalvedPacks"] == 2
    assert metrics.counters["BabelgateFrames"] == 5
    limit_memory(monkeypatch, handler, 0)
    for answer in ask(handler, BODIES[:2]):
        assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert answer.content["type"] == "urn:babelgate:out-of-memory"


def test_where_one_image_is_wanted_several_are_refused():
    frames = np.stack(draw_frames(2, height=8, width=8))
    (frame,) = read_frames(Row(write_npy(frames[0])), 64)
    assert np.array_equal(frame, frames[0])
    assert np.array_equal(read_frame(Row(write_npy(frames[:1])), 64), frames[0])
    with pytest.raises(TaskError, match=r"Expected one image, found 2 frames\."):
        read_frame(Row(write_npy(frames)), 64)
    with pytest.raises(TaskError, match="Expected 384 bytes of pixels") as refusal:
        read_frame(Row(write_npy(frames)[:-1]), 64)
    assert (refusal.value.status, refusal.value.slug) == (422, "invalid-image")


@pytest.mark.parametrize("text", ["", "0", "101", "5.5", "9" * 5000])
def test_another_number_of_labels_is_refused(text):
    with pytest.raises(TaskError) as refusal:
        Row(b"", {"top_k": text}).read_parameters(ClassificationRow)
    assert refusal.value.slug == "invalid-request"
    assert refusal.value.detail == (
        f"top_k: found {text[:20]!r}, expected a whole number from 1 to 100"
    )


@pytest.mark.parametrize("text", ["", "-0.1", "1.01", "nan"])
def test_another_threshold_is_refused(text):
    assert Row(b"", {}).read_parameters(DetectionRow).threshold == 0.5
    assert Row(b"", {"threshold": ".3"}).read_parameters(DetectionRow).threshold == 0.3
    with pytest.raises(TaskError, match="expected a number from 0 to 1"):
        Row(b"", {"threshold": text}).read_parameters(DetectionRow)


#: Rows of different clients, with different numbers and sizes of frames.
ROWS = [
    draw_frames(count, height=height, width=width, seed=seed)
    for seed, (count, height, width) in enumerate(
        [(3, 64, 64), (1, 30, 50), (4, 64, 64), (2, 50, 30), (5, 10, 10)]
    )
]


@pytest.fixture(scope="module")
def captioner(find_model: FindModel) -> Any:
    return start("captioning", find_model("blip2"), {"max_batch_frames": 4})


def write(rows: Sequence[Sequence[Frame]]) -> list[bytes]:
    return [write_npy(np.stack(frames)) for frames in rows]


def test_frames_of_all_rows_are_read_in_packs(captioner, monkeypatch):
    packs = limit_memory(monkeypatch, captioner, 4)
    metrics = FakeMetrics()
    ask(captioner, write(ROWS), metrics=metrics)
    assert packs == [4, 4, 4, 3]
    assert metrics.counters["BabelgateFrames"] == 15
    assert metrics.counters["BabelgateRows"] == 5
    assert metrics.counters["BabelgateHalvedPacks"] == 0


def test_a_frame_that_does_not_fit_costs_its_own_row(captioner, monkeypatch):
    expected = ask(captioner, write(ROWS))
    compute = captioner.compute

    def compute_small(images: Sequence[Image]) -> Any:
        if any(image.height == 30 for image in images):
            raise OutOfMemory("out of memory")
        return compute(images)

    monkeypatch.setattr(captioner, "compute", compute_small)
    answers = ask(captioner, write(ROWS))
    assert [answer.status for answer in answers] == [200, 503, 200, 200, 200]
    for i in (0, 2, 3, 4):
        assert read(answers[i]) == read(expected[i])


def test_each_row_gets_as_many_labels_as_it_wants(find_model: FindModel):
    classifier = start("classification", find_model("resnet"))
    wanted = {0: {"top_k": "1"}, 2: {"top_k": "2"}, 3: {"top_k": "100"}}
    answers = ask(classifier, BODIES[:1] * 4, parameters=wanted)
    labels = [answer.content["labels"] for answer in answers]
    assert [len(found) for found in labels] == [1, 3, 2, 3]
    assert labels[0] == labels[1][:1]


def test_objects_have_boxes_in_pixels_and_each_row_its_threshold(find_model: FindModel):
    detector = start("detection", find_model("rt-detr"))
    (answer,) = ask(detector, BODIES[1:2], parameters={0: {"threshold": "0"}})
    content = answer.content
    assert (content["width"], content["height"]) == (90, 50)
    assert len(content["objects"]) > 3
    scores = [found["score"] for found in content["objects"]]
    assert scores == sorted(scores, reverse=True)
    for found in content["objects"]:
        assert found["score"] == round(found["score"], 4)
        assert list(found["box"]) == ["left", "top", "right", "bottom"]
        assert all(side == round(side, 1) for side in found["box"].values())
    middle = (scores[3] + scores[4]) / 2
    wanted = {1: {"threshold": str(middle)}, 2: {"threshold": "1"}}
    usual, some, nothing = ask(detector, BODIES[1:2] * 3, parameters=wanted)
    assert len(usual.content["objects"]) == sum(score > 0.5 for score in scores)
    assert len(some.content["objects"]) == 4
    assert read(nothing) == {"objects": [], "width": 90, "height": 50}
