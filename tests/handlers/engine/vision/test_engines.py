"""Captions, labels and objects of models with random weights, against Transformers' own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    AutoTokenizer,
    Blip2ForConditionalGeneration,
    Blip2Processor,
)

from handlers.engine.vision.captioner import CaptioningEngine
from handlers.engine.vision.classifier import ClassificationEngine
from handlers.engine.vision.decoding import Frame
from handlers.engine.vision.detector import DetectionEngine, Object, Question
from tests.random_vision import LABELS, build_blip2, draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = [(64, 64), (90, 50), (50, 90), (64, 64), (3, 3), (240, 320)]
FRAMES = [
    *(
        frame
        for seed, (height, width) in enumerate(SIZES)
        for frame in draw_frames(1, height=height, width=width, seed=seed)
    ),
    *draw_frames(6),
]
TOKENS, THRESHOLD = 8, 0.1


@pytest.fixture(params=["blip2", "blip2_t5"])
def captioner(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["rt_detr", "detr"])
def detector(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def caption(engine: CaptioningEngine, frames: Sequence[Frame]) -> list[str]:
    return engine.caption([engine.preprocess(frame) for frame in frames])


def edit(directory: Path, name: str, changes: dict[str, Any]) -> None:
    path = directory / name
    content = json.loads(path.read_text())
    for key, value in changes.items():
        old = content.get(key)
        content[key] = old | value if isinstance(value, dict) else value
    path.write_text(json.dumps(content))


def test_captions_are_those_of_transformers(captioner: Path):
    model = Blip2ForConditionalGeneration.from_pretrained(captioner).eval()
    processor = Blip2Processor(
        AutoImageProcessor.from_pretrained(captioner, backend="pil"),
        AutoTokenizer.from_pretrained(captioner),
        num_query_tokens=model.config.num_query_tokens,
    )
    inputs = processor(
        images=FRAMES, input_data_format="channels_last", return_tensors="pt"
    )
    output = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    expected = processor.batch_decode(output, skip_special_tokens=True)
    found = caption(CaptioningEngine(captioner, max_tokens=TOKENS), FRAMES)
    assert found == [text.strip() for text in expected]
    assert len(set(found)) > 3, "the model says the same of everything"


def test_weights_have_the_precision_that_was_asked_for(blip2: Path):
    """But for the Q-Former, of which float16 is too small."""
    model = CaptioningEngine(blip2, compute_type="float16")._model
    assert model.vision_model.post_layernorm.weight.dtype == torch.float16
    assert model.language_projection.weight.dtype == torch.float16
    assert model.qformer.layernorm.weight.dtype == torch.float32
    assert model.query_tokens.dtype == torch.float32


@pytest.mark.parametrize(
    ("model", "file", "changes"),
    [
        # As an older Transformers has written it.
        ("blip2", "config.json", {"image_token_index": None}),
        ("blip2_t5", "config.json", {"text_config": {"bos_token_id": None}}),
        ("blip2", "generation_config.json", {"do_sample": True, "temperature": 9.0}),
        ("blip2", "generation_config.json", {"max_length": 6}),
    ],
)
def test_what_a_model_says_of_itself_changes_no_caption(
    model: str,
    file: str,
    changes: dict[str, Any],
    request: pytest.FixtureRequest,
    tmp_path: Path,
):
    usual = request.getfixturevalue(model)
    other = shutil.copytree(usual, tmp_path / "other")
    edit(other, file, changes)
    assert caption(CaptioningEngine(other), FRAMES) == caption(
        CaptioningEngine(usual), FRAMES
    )


def test_the_model_says_how_it_searches(blip2: Path, tmp_path: Path):
    other = shutil.copytree(blip2, tmp_path / "other")
    edit(other, "generation_config.json", {"no_repeat_ngram_size": 1})
    found = caption(CaptioningEngine(other, max_tokens=TOKENS), FRAMES)
    assert any(found)
    for text in found:
        assert len(set(text.split())) == len(text.split())


def test_pickled_weights_are_not_read(tmp_path: Path):
    directory = build_blip2(tmp_path)
    (directory / "model.safetensors").unlink()
    torch.save({}, directory / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        CaptioningEngine(directory)


def test_scores_are_those_of_transformers(resnet: Path):
    model = AutoModelForImageClassification.from_pretrained(resnet).eval()
    processor = AutoImageProcessor.from_pretrained(resnet, backend="pil")
    inputs = processor(FRAMES, input_data_format="channels_last", return_tensors="pt")
    with torch.inference_mode():
        expected = model(**inputs).logits.softmax(dim=1)
    engine = ClassificationEngine(resnet)
    found = engine.classify([engine.preprocess(f) for f in FRAMES], top_k=3)
    for labels, scores in zip(found, expected, strict=True):
        assert [label.score for label in labels] == sorted(
            (label.score for label in labels), reverse=True
        )
        by_name = {label.label: label.score for label in labels}
        wanted = dict(zip(LABELS, scores.tolist(), strict=True))
        assert by_name == pytest.approx(wanted, abs=1e-5)


def detect(
    engine: DetectionEngine, frames: Sequence[Frame], threshold: float = THRESHOLD
) -> list[list[Object]]:
    return engine.detect([Question(engine.preprocess(f), threshold) for f in frames])


def test_objects_are_those_of_transformers(detector: Path):
    model = AutoModelForObjectDetection.from_pretrained(detector).eval()
    processor = AutoImageProcessor.from_pretrained(detector, backend="pil")
    engine = DetectionEngine(detector)
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


def test_no_box_leaves_its_image(detector: Path):
    engine = DetectionEngine(detector)
    for frame, found in zip(FRAMES, detect(engine, FRAMES, 0.0), strict=True):
        height, width, _ = frame.shape
        assert found
        for box in (thing.box for thing in found):
            assert 0 <= box.left <= box.right <= width
            assert 0 <= box.top <= box.bottom <= height
