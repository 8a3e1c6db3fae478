"""Labels of a classifier with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoImageProcessor, AutoModelForImageClassification

from handlers.engine.vision.classifier import ClassificationEngine, ScoredLabel
from handlers.engine.vision.decoding import Frame
from tests.random_vision import LABELS, draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

FRAMES = [
    *draw_frames(6),
    *draw_frames(2, height=90, width=50, seed=1),
    *draw_frames(2, height=3, width=3, seed=2),
]


def classify(
    engine: ClassificationEngine, frames: Sequence[Frame], top_k: int = 3
) -> list[list[ScoredLabel]]:
    return engine.classify([engine.preprocess(frame) for frame in frames], top_k=top_k)


def test_scores_are_those_of_transformers(resnet: Path):
    model = AutoModelForImageClassification.from_pretrained(resnet).eval()
    processor = AutoImageProcessor.from_pretrained(resnet, backend="pil")
    inputs = processor(FRAMES, input_data_format="channels_last", return_tensors="pt")
    with torch.inference_mode():
        expected = model(**inputs).logits.softmax(dim=1)
    found = classify(ClassificationEngine(resnet), FRAMES)
    for labels, scores in zip(found, expected, strict=True):
        assert [label.score for label in labels] == sorted(
            (label.score for label in labels), reverse=True
        )
        by_name = {label.label: label.score for label in labels}
        wanted = dict(zip(LABELS, scores.tolist(), strict=True))
        assert by_name == pytest.approx(wanted, abs=1e-5)
