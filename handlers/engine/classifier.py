"""Pictures in, their likeliest labels out: any image classifier of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForImageClassification

from handlers.engine.inference import choose_device, infer, load_model
from handlers.engine.pixels import Picture, Preprocessor


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
        place = choose_device(device, index)
        dtype = getattr(torch, compute_type)
        self._model = load_model(
            AutoModelForImageClassification, directory, device=place, dtype=dtype
        )
        preprocessor = Preprocessor(directory, device=place, dtype=dtype)
        #: A frame as `classify` takes it.
        self.prepare = preprocessor.prepare
        self._run = preprocessor.run

    def classify(self, pictures: Sequence[Picture], *, top_k: int) -> list[list[Label]]:
        """The `top_k` likeliest labels of each picture, or all that there are, the best
        first. Raises OutOfMemory or DeviceFault."""

        def rank(places: list[int], pixels: torch.Tensor) -> list[list[Label]]:
            return self._rank(pixels, top_k)

        return infer(lambda: self._run(pictures, rank))

    def _rank(self, pixels: torch.Tensor, top_k: int) -> list[list[Label]]:
        logits = self._model(pixels).logits.float()
        best = logits.softmax(dim=1).topk(min(top_k, logits.shape[1]))
        names = self._model.config.id2label
        return [
            [Label(names[i], score) for i, score in zip(ids, scores, strict=True)]
            for ids, scores in zip(
                best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]
