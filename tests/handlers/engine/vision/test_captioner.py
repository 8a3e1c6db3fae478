"""Captions of BLIP-2s with random weights, against Transformers' own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    Blip2ForConditionalGeneration,
    Blip2Processor,
)

from handlers.engine.vision.captioner import CaptioningEngine
from handlers.engine.vision.decoding import Frame
from tests.random_vision import build_blip2, draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

FRAMES = [
    *draw_frames(8),
    *draw_frames(2, height=90, width=50, seed=1),
    *draw_frames(1, height=3, width=3, seed=2),
]
TOKENS = 8


@pytest.fixture(params=["blip2", "blip2_t5"])
def directory(request: pytest.FixtureRequest) -> Path:
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


def test_captions_are_those_of_transformers(directory: Path):
    model = Blip2ForConditionalGeneration.from_pretrained(directory).eval()
    processor = Blip2Processor(
        AutoImageProcessor.from_pretrained(directory, backend="pil"),
        AutoTokenizer.from_pretrained(directory),
        num_query_tokens=model.config.num_query_tokens,
    )
    inputs = processor(
        images=FRAMES, input_data_format="channels_last", return_tensors="pt"
    )
    output = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    expected = processor.batch_decode(output, skip_special_tokens=True)
    found = caption(CaptioningEngine(directory, max_tokens=TOKENS), FRAMES)
    assert found == [text.strip() for text in expected]
    assert len(set(found)) > 3, "the model says the same of everything"


def test_weights_have_the_precision_that_was_asked_for(blip2: Path):
    """But for the Q-Former, of which float16 is too small."""
    model = CaptioningEngine(blip2, compute_type="float16")._model
    assert model.vision_model.post_layernorm.weight.dtype == torch.float16
    assert model.language_projection.weight.dtype == torch.float16
    assert model.qformer.layernorm.weight.dtype == torch.float32
    assert model.query_tokens.dtype == torch.float32


def test_a_caption_has_at_most_so_many_tokens(directory: Path):
    engine = CaptioningEngine(directory, max_tokens=3)
    assert max(len(text.split()) for text in caption(engine, FRAMES)) == 3


@pytest.mark.parametrize(
    ("model", "file", "changes"),
    [
        # As an older Transformers has written it.
        pytest.param(
            "blip2", "config.json", {"image_token_index": None}, id="no image token"
        ),
        pytest.param(
            *("blip2_t5", "config.json", {"text_config": {"bos_token_id": None}}),
            id="no first token",
        ),
        pytest.param(
            *("blip2", "generation_config.json"),
            {"do_sample": True, "temperature": 9.0, "top_p": 0.9, "max_length": 6},
            id="chance",
        ),
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
