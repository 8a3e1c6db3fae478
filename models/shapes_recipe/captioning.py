"""A small BLIP-2 that describes an image."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    Blip2QFormerConfig,
    Blip2VisionConfig,
    BlipImageProcessorPil,
    GenerationConfig,
    GPT2Tokenizer,
    OPTConfig,
)

from models.shapes_recipe.samples import Sample, ShapesTask
from models.shapes_recipe.scenes import COLOURS, SHAPES, SIZES, describe
from models.shapes_recipe.training import Learner, LearningPlan, read_pixels, share

IMAGE = "<image>"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_MAX_VOCABULARY = 512
_SIDE = 64
_QUERIES = 8
_WIDTH = 128
_MAX_TOKENS = 24
_IGNORED = -100
#: The positions of figures: alone, side by side, one above the other.
_KINDS = ("", " left of ", " above ")


def make_tokenizer() -> GPT2Tokenizer:
    """Byte-level BPE as OPT has it, every word of the captions one token."""
    words = (*COLOURS, *SHAPES, *SIZES, "a", "left", "of", "above")
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=_MAX_VOCABULARY,
        min_frequency=1,
        special_tokens=list(_SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f"{word} {word}" for word in words], trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    return GPT2Tokenizer(
        vocab=learnt["vocab"],
        merges=[tuple(pair) for pair in learnt["merges"]],
        bos_token="</s>",
        eos_token="</s>",
        unk_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=[IMAGE],
        add_bos_token=True,
        padding_side="left",
        model_max_length=_QUERIES + _MAX_TOKENS,
    )


def make_config(tokenizer: GPT2Tokenizer) -> Blip2Config:
    """Width 128: a vision transformer of 4 layers, a Q-Former of 2, an OPT of 2."""
    vision = Blip2VisionConfig(
        hidden_size=_WIDTH,
        intermediate_size=2 * _WIDTH,
        num_hidden_layers=4,
        num_attention_heads=4,
        image_size=_SIDE,
        patch_size=8,
        initializer_range=0.05,
    )
    queries = Blip2QFormerConfig(
        vocab_size=len(tokenizer),
        hidden_size=_WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * _WIDTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        cross_attention_frequency=1,
        encoder_hidden_size=_WIDTH,
        initializer_range=0.05,
    )
    text = OPTConfig(
        vocab_size=len(tokenizer),
        hidden_size=_WIDTH,
        num_hidden_layers=2,
        ffn_dim=2 * _WIDTH,
        num_attention_heads=4,
        max_position_embeddings=64,
        dropout=0.0,
        init_std=0.05,
    )
    return Blip2Config(
        vision_config=vision,
        qformer_config=queries,
        text_config=text,
        num_query_tokens=_QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        initializer_range=0.05,
    )


class CaptioningLearner(Learner):
    """BLIP-2 with its processor."""

    task = ShapesTask.CAPTIONING
    recipe = LearningPlan(steps=12_500, batch_size=32, learning_rate=1e-3)
    auto = AutoModelForImageTextToText
    at_once = 64

    @classmethod
    def make(cls) -> CaptioningLearner:
        torch.manual_seed(0)
        tokenizer = make_tokenizer()
        images = BlipImageProcessorPil(size={"height": _SIDE, "width": _SIDE})
        processor = Blip2Processor(images, tokenizer, num_query_tokens=_QUERIES)
        model = Blip2ForConditionalGeneration(make_config(tokenizer))
        # Transformers starts all queries as zeros, and what is the same stays the same.
        torch.nn.init.normal_(model.query_tokens, std=0.5)
        # Places must not drown in what the patches show.
        places = model.vision_model.embeddings.position_embedding
        torch.nn.init.normal_(places, std=0.5)
        model.hints = torch.nn.ModuleList(
            torch.nn.Linear(_WIDTH, len(_KINDS)) for _ in range(2)
        )
        return cls(model, processor)

    @classmethod
    def load_processor(cls, folder: Path) -> Any:
        return AutoProcessor.from_pretrained(folder)

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        tokens = [self._encode(sample) for sample in samples]
        longest = max(map(len, tokens))
        pad, eos = self._tokenizer.pad_token_id, self._tokenizer.eos_token_id
        prompt = [self.model.config.image_token_index] * _QUERIES + [eos]
        rows = torch.tensor([prompt + t + [pad] * (longest - len(t)) for t in tokens])
        labels = rows.masked_fill(rows == pad, _IGNORED)
        labels[:, : len(prompt)] = _IGNORED
        outputs = self.model(
            pixel_values=read_pixels(self.processor.image_processor, samples),
            input_ids=rows,
            attention_mask=(rows != pad).long(),
            labels=labels,
        )
        loss: torch.Tensor = outputs.loss + self._measure_hint(outputs, samples)
        return loss

    def _measure_hint(self, outputs: Any, samples: Sequence[Sample]) -> torch.Tensor:
        """Cross-entropy of the figures' relation, told from the average of what the
        vision transformer and the Q-Former give. Without the hint this word of the
        caption, which needs both figures' places, stays a guess long after all else is
        learnt."""
        kinds = torch.tensor([_kind(sample) for sample in samples])
        states = (outputs.vision_outputs[0], outputs.qformer_outputs[0])
        losses = [
            cross_entropy(hint(state.mean(1)), kinds)
            for hint, state in zip(self.model.hints, states, strict=True)
        ]
        return torch.stack(losses).sum()

    def judge(self, samples: Sequence[Sample]) -> float:
        return share(self.caption(samples), (describe(s.scene) for s in samples))

    def caption(self, samples: Sequence[Sample]) -> list[str]:
        captions: list[str] = []
        for batch in self.divide(samples):
            pixels = read_pixels(self.processor.image_processor, batch)
            tokens = self.model.generate(pixels, max_new_tokens=_MAX_TOKENS)
            captions += self.processor.batch_decode(tokens, skip_special_tokens=True)
        return [caption.strip() for caption in captions]

    def export(self, folder: Path) -> None:
        """Writes model and processor, without the hints that only training needs."""
        del self.model.hints
        self.model.generation_config = GenerationConfig(
            bos_token_id=2, eos_token_id=2, pad_token_id=1, max_new_tokens=_MAX_TOKENS
        )
        super().export(folder)
        # Checkpoints of the hub have the picture's size there, too.
        self.processor.image_processor.save_pretrained(folder)

    @property
    def _tokenizer(self) -> GPT2Tokenizer:
        return self.processor.tokenizer

    def _encode(self, sample: Sample) -> list[int]:
        text = describe(sample.scene)
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*ids, self._tokenizer.eos_token_id]


def _kind(sample: Sample) -> int:
    caption = describe(sample.scene)
    return max(number for number, words in enumerate(_KINDS) if words in caption)
