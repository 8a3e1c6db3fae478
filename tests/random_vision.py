"""Tiny vision models of every kind with random weights, and frames that they can tell apart."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    DetrConfig,
    DetrForObjectDetection,
    PreTrainedTokenizerFast,
    ResNetConfig,
    ResNetForImageClassification,
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrResNetConfig,
)
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
#: The sizes of a detector.
_LAYERS = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
_SIZES = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "d_model"), 32)
_HEADS = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2)
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
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 2}
    text = {
        "opt": {"hidden_size": 32, "ffn_dim": 64, "word_embed_proj_dim": 32}
        | {"num_hidden_layers": 2, "num_attention_heads": 2}
        | {"max_position_embeddings": 64},
        "t5": {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
        | {"decoder_start_token_id": 0},
    }[language_model]
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32}
    settings = {
        "vision_config": layers
        | {"intermediate_size": 64, "image_size": SIDE, "patch_size": 16},
        "qformer_config": layers | {"intermediate_size": 64, "vocab_size": 8},
        "text_config": {"model_type": language_model, "vocab_size": tokens}
        | ids
        | text,
        "num_query_tokens": 4,
        "image_token_index": tokens - 1,
    }
    processor = BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    config = Blip2Config(**settings)
    return _save(directory, Blip2ForConditionalGeneration, config, processor)


def build_resnet(directory: Path) -> Path:
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **_NAMES
    )
    processor = ConvNextImageProcessorPil(size={"shortest_edge": SIDE})
    return _save(directory, ResNetForImageClassification, config, processor)


def build_rt_detr(directory: Path) -> Path:
    """Build a detector that scales every picture to one size."""
    backbone = RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = RTDetrConfig(
        backbone_config=backbone,
        encoder_in_channels=[16, 16, 16],
        decoder_in_channels=[32, 32, 32],
        decoder_layers=2,
        num_queries=20,
        num_denoising=0,
        encoder_hidden_dim=32,
        **_SIZES,
        **_HEADS,
        **_NAMES,
    )
    processor = RTDetrImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return _save(directory, RTDetrForObjectDetection, config, processor)


def build_detr(directory: Path) -> Path:
    """Build a detector that keeps the proportions of a picture."""
    config = DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        backbone_config=ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            out_features=["stage2"],
        ),
        num_queries=5,
        **_LAYERS,
        **_SIZES,
        **_HEADS,
        **_NAMES,
    )
    processor = DetrImageProcessorPil(size={"shortest_edge": 48, "longest_edge": 96})
    return _save(directory, DetrForObjectDetection, config, processor)


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
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=_PAD,
        unk_token=_UNKNOWN,
        bos_token=_END,
        eos_token=_END,
        additional_special_tokens=["<image>"],
    ).save_pretrained(directory)
    return len(tokens)
