"""Captions, labels and objects of models with random weights equal those of Transformers."""

import json
import shutil
from pathlib import Path
from typing import Any

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

from handlers.base import LoadError, TaskHandler
from handlers.captioning import CaptioningHandler
from handlers.engine.vision.engine import VisionEngine
from tests.handlers.conftest import FindModel
from tests.handlers.encoding import write_npy
from tests.handlers.fakes import ask
from tests.handlers.test_vision import start
from tests.random_vision import LABELS, build_blip2, draw_frames

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
LARGE = {"max_pixels": 100_000}
TENSORS = {"input_data_format": "channels_last", "return_tensors": "pt"}


def answer(handler: TaskHandler[Any], **parameters: str) -> list[Any]:
    """The contents of the answers to a batch of frames with the same parameters."""
    bodies = [write_npy(frame) for frame in FRAMES]
    every = dict.fromkeys(range(len(bodies)), parameters)
    return [answer.content for answer in ask(handler, bodies, parameters=every)]


def caption(directory: Path, max_tokens: int = 30) -> list[str]:
    options = {"max_tokens": max_tokens, **LARGE}
    contents = answer(start("captioning", directory, options))
    return [content["captions"][0] for content in contents]


def edit(directory: Path, name: str, changes: dict[str, Any]) -> None:
    path = directory / name
    content = json.loads(path.read_text())
    for key, value in changes.items():
        old = content.get(key)
        content[key] = old | value if isinstance(value, dict) else value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["blip2", "blip2-t5"])
def test_captions_are_those_of_transformers(name: str, find_model: FindModel):
    captioner = find_model(name)
    model = Blip2ForConditionalGeneration.from_pretrained(captioner).eval()
    processor = Blip2Processor(
        AutoImageProcessor.from_pretrained(captioner, backend="pil"),
        AutoTokenizer.from_pretrained(captioner),
        num_query_tokens=model.config.num_query_tokens,
    )
    inputs = processor(images=FRAMES, **TENSORS)
    output = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    expected = processor.batch_decode(output, skip_special_tokens=True)
    found = caption(captioner, TOKENS)
    assert found == [text.strip() for text in expected]
    assert len(set(found)) > 3, "the model says the same of everything"


def test_weights_have_the_precision_that_was_asked_for(find_model: FindModel):
    """All but the Q-Former's, for which the range of float16 is too small."""
    kind, directory = CaptioningHandler.kind, find_model("blip2")
    model = VisionEngine(kind, directory, compute_type="float16").model
    assert model.vision_model.post_layernorm.weight.dtype == torch.float16
    assert model.language_projection.weight.dtype == torch.float16
    assert model.qformer.layernorm.weight.dtype == torch.float32
    assert model.query_tokens.dtype == torch.float32


@pytest.mark.parametrize(
    ("model", "file", "changes"),
    [
        # As written by an older Transformers.
        ("blip2", "config.json", {"image_token_index": None}),
        ("blip2-t5", "config.json", {"text_config": {"bos_token_id": None}}),
        ("blip2", "generation_config.json", {"do_sample": True, "temperature": 9.0}),
        ("blip2", "generation_config.json", {"max_length": 6}),
    ],
)
def test_what_a_model_says_of_itself_changes_no_caption(
    model, file, changes, find_model, tmp_path
):
    usual = find_model(model)
    other = shutil.copytree(usual, tmp_path / "other")
    edit(other, file, changes)
    assert caption(other) == caption(usual)


def test_the_model_says_how_it_searches(find_model: FindModel, tmp_path: Path):
    other = shutil.copytree(find_model("blip2"), tmp_path / "other")
    edit(other, "generation_config.json", {"no_repeat_ngram_size": 1})
    found = caption(other, TOKENS)
    assert any(found)
    for text in found:
        assert len(set(text.split())) == len(text.split())


def test_pickled_weights_are_not_read(tmp_path: Path):
    directory = build_blip2(tmp_path)
    (directory / "model.safetensors").unlink()
    torch.save({}, directory / "pytorch_model.bin")
    with pytest.raises(LoadError, match="safetensors"):
        start("captioning", directory)


def test_scores_are_those_of_transformers(find_model: FindModel):
    resnet = find_model("resnet")
    model = AutoModelForImageClassification.from_pretrained(resnet).eval()
    processor = AutoImageProcessor.from_pretrained(resnet, backend="pil")
    inputs = processor(FRAMES, **TENSORS)
    with torch.inference_mode():
        expected = model(**inputs).logits.softmax(dim=1)
    found = answer(start("classification", resnet, LARGE), top_k="3")
    for content, scores in zip(found, expected, strict=True):
        by_name = {label["label"]: label["score"] for label in content["labels"]}
        assert list(by_name.values()) == sorted(by_name.values(), reverse=True)
        wanted = dict(zip(LABELS, scores.tolist(), strict=True))
        assert by_name == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("name", ["rt-detr", "detr"])
def test_objects_are_those_of_transformers(name: str, find_model: FindModel):
    detector = find_model(name)
    model = AutoModelForObjectDetection.from_pretrained(detector).eval()
    processor = AutoImageProcessor.from_pretrained(detector, backend="pil")
    handler = start("detection", detector, LARGE)
    contents = answer(handler, threshold=str(THRESHOLD))
    for frame, content in zip(FRAMES, contents, strict=True):
        inputs = processor(frame, **TENSORS)
        with torch.inference_mode():
            output = model(**inputs)
        (expected,) = processor.post_process_object_detection(
            output, threshold=THRESHOLD, target_sizes=[frame.shape[:2]]
        )
        found = content["objects"]
        assert found, "the model sees nothing"
        order = expected["scores"].argsort(descending=True, stable=True)
        labels = [LABELS[label] for label in expected["labels"][order]]
        assert [thing["label"] for thing in found] == labels
        scores = expected["scores"][order].tolist()
        assert [thing["score"] for thing in found] == pytest.approx(scores, abs=1e-4)
        height, width, _ = frame.shape
        sides = torch.tensor([width, height, width, height])
        boxes = expected["boxes"][order].clamp(torch.zeros(4), sides)
        for thing, box in zip(found, boxes.tolist(), strict=True):
            assert [*thing["box"].values()] == pytest.approx(box, abs=0.11)
