"""Objects that detectors with random weights see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoImageProcessor, AutoModelForObjectDetection

from handlers.engine.vision.decoding import Frame
from handlers.engine.vision.detector import DetectionEngine, Object, Question
from tests.random_vision import LABELS, draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = [(64, 64), (90, 50), (50, 90), (64, 64), (3, 3), (240, 320)]
FRAMES = [
    frame
    for i, (height, width) in enumerate(SIZES)
    for frame in draw_frames(1, height=height, width=width, seed=i)
]
THRESHOLD = 0.1


@pytest.fixture(params=["rt_detr", "detr"])
def directory(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def detect(
    engine: DetectionEngine, frames: Sequence[Frame], threshold: float = THRESHOLD
) -> list[list[Object]]:
    return engine.detect([Question(engine.preprocess(f), threshold) for f in frames])


def check_alike(
    found: list[Object], expected: list[Object], *, score: float, pixels: float
) -> None:
    """The same objects, but for what rounding does."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.label == other.label
        assert one.score == pytest.approx(other.score, abs=score)
        assert astuple(one.box) == pytest.approx(astuple(other.box), abs=pixels)


def test_objects_are_those_of_transformers(directory: Path):
    model = AutoModelForObjectDetection.from_pretrained(directory).eval()
    processor = AutoImageProcessor.from_pretrained(directory, backend="pil")
    engine = DetectionEngine(directory)
    for frame, found in zip(FRAMES, detect(engine, FRAMES), strict=True):
        inputs = processor(
            frame, input_data_format="channels_last", return_tensors="pt"
        )
        with torch.inference_mode():
            output = model(**inputs)
        (expected,) = processor.post_process_object_detection(
            output, threshold=THRESHOLD, target_sizes=[frame.shape[:2]]
        )
        assert found, "the model sees nothing"
        order = expected["scores"].argsort(descending=True, stable=True)
        labels = [LABELS[label] for label in expected["labels"][order]]
        assert [thing.label for thing in found] == labels
        scores = expected["scores"][order].tolist()
        assert [thing.score for thing in found] == pytest.approx(scores, abs=1e-5)


def test_boxes_are_in_pixels_of_the_image_as_it_came(rt_detr: Path):
    """The model sees the same of a plain image and of one twice as large."""
    engine = DetectionEngine(rt_detr)
    small, large = (np.full((s, 2 * s, 3), (9, 99, 200), np.uint8) for s in (64, 128))
    before, after = detect(engine, [small, large])
    assert len(before) == len(after) > 0
    scaled = [astuple(thing.box) for thing in before]
    for thing, box in zip(after, scaled, strict=True):
        twice = tuple(2 * side for side in box)
        assert astuple(thing.box) == pytest.approx(twice, abs=0.01)


def test_no_box_leaves_its_image(directory: Path):
    engine = DetectionEngine(directory)
    for frame, found in zip(FRAMES, detect(engine, FRAMES, 0.0), strict=True):
        height, width, _ = frame.shape
        assert found
        for box in (thing.box for thing in found):
            assert 0 <= box.left <= box.right <= width
            assert 0 <= box.top <= box.bottom <= height


def test_float16_sees_much_the_same(directory: Path):
    exact = detect(DetectionEngine(directory), FRAMES[:3])
    half = detect(DetectionEngine(directory, compute_type="float16"), FRAMES[:3])
    for found, expected in zip(half, exact, strict=True):
        check_alike(found[:1], expected[:1], score=0.01, pixels=2)
