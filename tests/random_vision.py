"""Tiny vision models of every kind with random weights, and frames that they can tell apart."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import (
    ConvNextImageProcessorPil,
)
from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
from transformers.models.rt_detr.image_processing_pil_rt_detr import (
    RTDetrImageProcessorPil,
)

from handlers.engine.vision.decoding import Frame

#: The size to which `build_blip2`, `build_resnet` and `build_rt_detr` scale pictures.
SIDE = 64
LABELS = ("person", "circle", "square")
_WORDS = "a red blue green circle square left right of above below person small".split()
_PAD, _UNKNOWN, _END = "<pad>", "<unk>", "</s>"
_SETTINGS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
_NAMES: dict[str, Any] = {
    "num_labels": len(LABELS),
    "id2label": dict(enumerate(LABELS)),
    "label2id": {label: i for i, label in enumerate(LABELS)},
}


def draw_frames(
    count: int, *, height: int = SIDE, width: int = SIDE, seed: int = 0
) -> list[Frame]:
    """Draw frames of 2 x 2 blocks in random colours."""
    blocks = np.random.default_rng(seed).integers(0, 256, (count, 2, 2, 3), np.uint8)
    rows = np.arange(height) * 2 // height
    columns = np.arange(width) * 2 // width
    return list(blocks[:, rows][:, :, columns])


def build_blip2(directory: Path, language_model: str = "opt") -> Path:
    """Build a BLIP-2 with an `opt` or `t5` language model."""
    tokens = _save_tokenizer(directory)
    config = transformers.Blip2Config(
        text_config={
            "model_type": language_model,
            "vocab_size": tokens,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 2,
            **_SETTINGS["text"][language_model],
        },
        image_token_index=tokens - 1,
        **_SETTINGS["Blip2Config"],
    )
    processor = BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return _save(
        directory, transformers.Blip2ForConditionalGeneration, config, processor
    )


def build_resnet(directory: Path) -> Path:
    config = transformers.ResNetConfig(**_SETTINGS["ResNetConfig"], **_NAMES)
    processor = ConvNextImageProcessorPil(size={"shortest_edge": SIDE})
    kind = transformers.ResNetForImageClassification
    return _save(directory, kind, config, processor)


def build_rt_detr(directory: Path) -> Path:
    """Build a detector that scales every picture to one size."""
    config = transformers.RTDetrConfig(**_SETTINGS["RTDetrConfig"], **_NAMES)
    processor = RTDetrImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return _save(directory, transformers.RTDetrForObjectDetection, config, processor)


def build_detr(directory: Path) -> Path:
    """Build a detector that keeps the proportions of a picture."""
    config = transformers.DetrConfig(**_SETTINGS["DetrConfig"], **_NAMES)
    processor = DetrImageProcessorPil(size={"shortest_edge": 48, "longest_edge": 96})
    return _save(directory, transformers.DetrForObjectDetection, config, processor)


def _save(directory: Path, kind: Any, config: Any, processor: Any) -> Path:
    _shake(kind, config).save_pretrained(directory)
    processor.save_pretrained(directory)
    return directory


def _shake(kind: Any, config: Any) -> Any:
    """Make a model with weights so large that its answers depend on its input."""
    torch.manual_seed(0)
    model = kind(config).eval()
    for weights in model.parameters():
        if weights.dim() > 1:
            fan_in = weights[0].numel()
            torch.nn.init.normal_(weights, std=1.5 / fan_in**0.5)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        # Average over the input, as in training, or the signal fades away.
        norm.momentum = None
        norm.train()
    if norms:
        frames = torch.from_numpy(np.stack(draw_frames(16, seed=1)))
        with torch.inference_mode():
            model(pixel_values=frames.permute(0, 3, 1, 2) / 255)
    return model.eval()


def _save_tokenizer(directory: Path) -> int:
    """Save a tokenizer with a token per word, and the image's last; return their number."""
    tokens = [_PAD, _UNKNOWN, _END, *_WORDS, "<image>"]
    ids = {token: i for i, token in enumerate(tokens)}
    words = Tokenizer(models.WordLevel(ids, unk_token=_UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=_PAD,
        unk_token=_UNKNOWN,
        bos_token=_END,
        eos_token=_END,
        additional_special_tokens=["<image>"],
    ).save_pretrained(directory)
    return len(tokens)
