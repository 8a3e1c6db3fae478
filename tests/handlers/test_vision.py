"""The common behaviour of tasks that take images, as TorchServe calls them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlers.base import Row, TaskError, TaskHandler, find_handler
from handlers.engine.errors import OutOfMemory
from handlers.images import read_frame, read_frames
from handlers.schemas import ClassificationRow, DetectionRow
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

pytestmark = pytest.mark.usefixtures("one_thread")

#: A model for each task, and what its engine is asked.
TASKS = {
    "captioning": ("blip2", "caption"),
    "classification": ("resnet", "classify"),
    "detection": ("rt_detr", "detect"),
}
SECRET = b"xylophone"
BODIES = [
    write_image(draw_frames(1)[0]),
    write_image(draw_frames(1, height=50, width=90, seed=1)[0], "JPEG", quality=95),
    write_image(draw_frames(1, height=30, width=30, seed=2)[0], "WEBP", lossless=True),
    write_npy(draw_frames(1, height=70, width=40, seed=3)[0]),
    write_npy(np.stack(draw_frames(1, seed=4))),
]
BAD = {
    "nothing": (b"", 415),
    "JSON": ({"image": "…"}, 415),
    "a text": (SECRET, 415),
    "a GIF": (write_image(draw_frames(1)[0], "GIF"), 415),
    "floats": (write_npy(np.zeros((4, 4, 3))), 422),
    "a grey array": (write_npy(np.zeros((4, 4), np.uint8)), 422),
    "no frames": (write_npy(np.zeros((0, 4, 4, 3), np.uint8)), 422),
    "a cut array": (BODIES[3][:-5], 422),
    "a cut PNG": (BODIES[0][:60], 422),
    "a cut JPEG": (BODIES[1][:300], 422),
    "a thin line": (write_npy(np.zeros((1, 2000, 3), np.uint8)), 422),
    "too many pixels": (write_npy(np.zeros((101, 100, 3), np.uint8)), 422),
}

Start = Callable[..., TaskHandler[Any]]


def start(
    task: str, directory: Path, options: Mapping[str, Any] | None = None
) -> TaskHandler[Any]:
    handler = find_handler(task)()
    config = make_options(
        task, directory, **{"max_pixels": 10_000} | dict(options or {})
    )
    handler.initialize(make_context(config={"handler": config}))
    return handler


@pytest.fixture(scope="module", params=TASKS)
def task(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def directory(task: str, request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(TASKS[task][0])
    return found


@pytest.fixture(scope="module")
def handler(task: str, directory: Path) -> TaskHandler[Any]:
    return start(task, directory)


def limit_memory(
    monkeypatch: pytest.MonkeyPatch, handler: Any, task: str, images: int
) -> list[int]:
    """Gives the model room for `images` images; returns the sizes of its batches."""
    batches: list[int] = []
    name = TASKS[task][1]
    run = getattr(handler.engine, name)

    def run_if_it_fits(items: Sequence[Any], **options: Any) -> Any:
        batches.append(len(items))
        if len(items) > images:
            raise OutOfMemory("out of memory")
        return run(items, **options)

    monkeypatch.setattr(handler.engine, name, run_if_it_fits)
    return batches


def check_alike(found: Any, expected: Any) -> None:
    """The same content, but for what rounding does to numbers."""
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
        check_alike(answer.content, other.content)


def test_a_row_is_answered_alike_alone_and_in_a_batch(handler: TaskHandler[Any]):
    alone = [ask_one(handler, body) for body in BODIES]
    assert len({answer.body for answer in alone}) == len(alone)
    check_all_alike(ask(handler, BODIES), alone)
    check_all_alike(ask(handler, BODIES[::-1]), alone[::-1])


def test_bad_rows_cost_the_others_nothing(handler: TaskHandler[Any]):
    expected = ask(handler, BODIES)
    bad = [body for body, _ in BAD.values()]
    answers = ask(handler, [*bad[:6], *BODIES[:2], *bad[6:], *BODIES[2:]])
    check_all_alike([*answers[6:8], *answers[-3:]], expected)
    refused = [*answers[:6], *answers[8:-3]]
    for (name, (_, status)), answer in zip(BAD.items(), refused, strict=True):
        assert answer.status == answer.content["status"] == status, name
        assert answer.content_type == "application/problem+json"
        slug = "unsupported-image" if status == 415 else "invalid-image"
        assert answer.content["type"] == f"urn:babelgate:{slug}"
        assert "xpected" in answer.content["detail"]


def test_what_does_not_fit_into_memory_is_run_in_halves(
    handler: TaskHandler[Any], task: str, monkeypatch: pytest.MonkeyPatch
):
    expected = ask(handler, BODIES)
    batches = limit_memory(monkeypatch, handler, task, 2)
    metrics = FakeMetrics()
    check_all_alike(ask(handler, BODIES, metrics=metrics), expected)
    assert batches == [5, 2, 3, 1, 2]
    assert metrics.counters["BabelgateHalvedPacks"] == 2
    assert metrics.counters["BabelgateFrames"] == 5


def test_a_row_that_does_not_fit_alone_is_503(
    handler: TaskHandler[Any], task: str, monkeypatch: pytest.MonkeyPatch
):
    limit_memory(monkeypatch, handler, task, 0)
    for answer in ask(handler, BODIES[:2]):
        assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert answer.content["type"] == "urn:babelgate:out-of-memory"


def test_no_log_holds_what_people_send(
    handler: TaskHandler[Any],
    task: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"a bug about {SECRET.decode()}")

    monkeypatch.setattr(handler.engine, TASKS[task][1], fail)  # type: ignore[attr-defined]
    with caplog.at_level(logging.DEBUG):
        answers = ask(handler, [*BODIES[:2], SECRET])
    assert [answer.status for answer in answers] == [500, 500, 415]
    assert "a batch of 2 rows failed with RuntimeError" in caplog.text
    assert SECRET.decode() not in caplog.text


def test_where_one_image_is_wanted_several_are_refused():
    frames = np.stack(draw_frames(2, height=8, width=8))
    (frame,) = read_frames(Row(write_npy(frames[0])), 64)
    assert np.array_equal(frame, frames[0])
    assert np.array_equal(read_frame(Row(write_npy(frames[:1])), 64), frames[0])
    with pytest.raises(TaskError, match=r"Expected one image, found 2 frames\."):
        read_frame(Row(write_npy(frames)), 64)


@pytest.mark.parametrize(("given", "top_k"), [({}, 5), ({"top_k": "100"}, 100)])
def test_a_row_may_say_how_many_labels_it_wants(given, top_k):
    assert Row(b"", given).read_parameters(ClassificationRow).top_k == top_k


@pytest.mark.parametrize(("given", "least"), [({}, 0.5), ({"threshold": ".3"}, 0.3)])
def test_a_row_may_say_which_score_an_object_needs(given, least):
    assert Row(b"", given).read_parameters(DetectionRow).threshold == least


@pytest.mark.parametrize("text", ["", "0", "101", "5.5", "five", "9" * 5000])
def test_another_number_of_labels_is_refused(text):
    with pytest.raises(TaskError) as refusal:
        Row(b"", {"top_k": text}).read_parameters(ClassificationRow)
    assert refusal.value.slug == "invalid-request"
    assert refusal.value.detail == (
        f"top_k: found {text[:20]!r}, expected a whole number from 1 to 100"
    )


@pytest.mark.parametrize("text", ["", "-0.1", "1.01", "nan", "inf", "half"])
def test_another_threshold_is_refused(text):
    with pytest.raises(TaskError, match="expected a number from 0 to 1"):
        Row(b"", {"threshold": text}).read_parameters(DetectionRow)
