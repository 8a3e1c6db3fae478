"""Captions images with any BLIP-2 of Transformers, with OPT or T5 as its language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Blip2ForConditionalGeneration, GenerationConfig

from handlers.engine.vision.engine import Image, VisionEngine


class CaptioningEngine(VisionEngine):
    """Captions with a Hugging Face directory, without a prompt, so that all images of a
    batch begin alike and an image's caption is the same in any batch."""

    kind = Blip2ForConditionalGeneration

    def __init__(
        self, directory: Path, *, max_tokens: int = 30, **placement: Any
    ) -> None:
        super().__init__(directory, **placement)
        self._tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True
        )
        self._prompt = _make_prompt(self._model.config).to(self._model.device)
        self._generation = _make_generation(self._model, max_tokens)

    def caption(self, images: Sequence[Image]) -> list[str]:
        """One caption per image, in order. Raises OutOfMemory or DeviceFault."""
        return self._infer(images, self._generate)

    def _generate(self, places: list[int], pixels: torch.Tensor) -> list[str]:
        prompts = self._prompt.expand(len(places), -1)
        tokens = self._model.generate(
            pixel_values=pixels,
            input_ids=prompts,
            attention_mask=torch.ones_like(prompts),
            generation_config=self._generation,
        )
        if self._model.config.use_decoder_only_language_model:
            tokens = tokens[:, prompts.shape[1] :]
        captions = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [caption.strip() for caption in captions]


def _make_prompt(config: Any) -> torch.Tensor:
    """The processor's tokens for an empty text: the places of the image, then the token that
    begins a text. T5 has none and reads its end token there."""
    text = config.text_config
    if config.image_token_index is None:
        # An older Transformers wrote the checkpoint. Any token that is not text will do.
        config.image_token_index = text.vocab_size - 1
    begin = text.eos_token_id if text.bos_token_id is None else text.bos_token_id
    places = [config.image_token_index] * config.num_query_tokens
    return torch.tensor([[*places, begin]])


def _make_generation(model: Any, max_tokens: int) -> GenerationConfig:
    """Follows `generation_config.json`, else the language model's configuration, but always
    takes the likeliest caption, never a sample."""
    own = model.language_model.generation_config.to_dict()
    said = {
        key: value
        for key, value in model.generation_config.to_dict().items()
        if value is not None
    }
    chance = dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p"))
    return GenerationConfig.from_dict(
        own
        | said
        | chance
        | {"do_sample": False, "max_new_tokens": max_tokens, "max_length": None}
    )
