"""The captioning task: a caption per image or frame, by any BLIP-2 with OPT or T5."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

import torch
from transformers import AutoTokenizer, Blip2ForConditionalGeneration, GenerationConfig

from handlers.base import ModelConfig, Outcome, Result, Row
from handlers.engine.errors import OutOfMemory, run_in_halves
from handlers.engine.vision.engine import Image
from handlers.images import BLACK, ImageHandler, no_memory, read_frames


class CaptioningHandler(ImageHandler[list[Image]]):
    """The handler of one BLIP-2. Without a prompt, all sequences start alike, so an image gets
    the same caption in any batch. The frames of all rows of a batch are captioned together."""

    kind = Blip2ForConditionalGeneration

    def load_model(self, config: ModelConfig) -> None:
        super().load_model(config)
        self.max_batch_frames: int = config.options["max_batch_frames"]
        self._tokenizer = AutoTokenizer.from_pretrained(
            config.directory, local_files_only=True
        )
        model = self.engine.model
        _complete(model.config)
        self._generation = _make_generation(model, config.options["max_tokens"])
        self.compute([self.engine.preprocess(BLACK)])

    def preprocess(self, row: Row) -> list[Image]:
        return [*map(self.engine.preprocess, read_frames(row, self.max_pixels))]

    def infer(self, items: Sequence[list[Image]], deadline: float) -> Outcome:
        images = list(chain(*items))
        packs = [
            run_in_halves(self.compute, images[start : start + self.max_batch_frames])
            for start in range(0, len(images), self.max_batch_frames)
        ]
        dealt = chain.from_iterable(captions for captions, _ in packs)
        results = [_write_captions(list(islice(dealt, len(item)))) for item in items]
        halved = sum(halved for _, halved in packs)
        return Outcome(
            results, {"BabelgateFrames": len(images), "BabelgateHalvedPacks": halved}
        )

    def compute(self, items: Sequence[Image]) -> list[str]:
        return self.engine.infer([(image, None) for image in items], self._generate)

    def _generate(self, items: object, pixels: torch.Tensor) -> list[str]:
        model = self.engine.model
        tokens = model.generate(pixels, generation_config=self._generation)
        if model.config.use_decoder_only_language_model:
            # The output repeats the image's placeholder tokens and the start token.
            tokens = tokens[:, model.config.num_query_tokens + 1 :]
        captions = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [caption.strip() for caption in captions]


def _write_captions(captions: list[str | OutOfMemory]) -> Result:
    if any(isinstance(caption, OutOfMemory) for caption in captions):
        return no_memory()
    return {"captions": captions}


def _complete(config: Any) -> None:
    """Set the tokens from which Transformers builds the prompt: the image placeholder and the
    start of a text. T5 has no start token and reads its end token there."""
    text = config.text_config
    if config.image_token_index is None:
        # Checkpoints of older Transformers lack it. Any token that is not text will do.
        config.image_token_index = text.vocab_size - 1
    if text.bos_token_id is None:
        text.bos_token_id = text.eos_token_id


def _make_generation(model: Any, max_tokens: int) -> GenerationConfig:
    """Use `generation_config.json`, else the language model's configuration; never sample."""
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
