"""Pictures in, their likeliest labels out: any image classifier of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForImageClassification

from handlers.engine.images import Frame
from handlers.engine.inference import choose_device, infer
from handlers.engine.pixels import Inputs, Preprocessor


@dataclass(frozen=True)
class Label:
    """What a picture may show, and how probable that is, from 0 to 1."""

    label: str
    score: float


class ClassificationEngine:
    """Classifies with a Hugging Face directory."""

    def __init__(
        self,
        directory: Path,
        *,
        device: str = "cpu",
        index: int = 0,
        compute_type: str = "float32",
    ) -> None:
        self._device = choose_device(device, index)
        dtype = getattr(torch, compute_type)
        self._model = (
            AutoModelForImageClassification.from_pretrained(
                directory, dtype=dtype, local_files_only=True, use_safetensors=True
            )
            .to(self._device)
            .eval()
        )
        self._preprocess = Preprocessor(directory, device=self._device, dtype=dtype)

    def classify(self, frames: Sequence[Frame], *, top_k: int) -> list[list[Label]]:
        """The `top_k` likeliest labels of each picture, or all that there are, the best
        first. Raises OutOfMemory or DeviceFault."""

        def rank(places: list[int], inputs: Inputs) -> list[list[Label]]:
            return self._rank(inputs, top_k)

        return infer(lambda: self._preprocess.run(frames, rank))

    def _rank(self, inputs: Inputs, top_k: int) -> list[list[Label]]:
        logits = self._model(**inputs).logits.float()
        best = logits.softmax(dim=1).topk(min(top_k, logits.shape[1]))
        names = self._model.config.id2label
        return [
            [Label(names[i], score) for i, score in zip(ids, scores, strict=True)]
            for ids, scores in zip(
                best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]
