"""Labels images with any image classifier of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import AutoModelForImageClassification

from handlers.engine.vision.engine import Image, VisionEngine


@dataclass(frozen=True)
class ScoredLabel:
    """A possible label of an image, and its probability from 0 to 1."""

    label: str
    score: float


class ClassificationEngine(VisionEngine):
    """Classifies with a Hugging Face directory."""

    kind = AutoModelForImageClassification

    def classify(
        self, images: Sequence[Image], *, top_k: int
    ) -> list[list[ScoredLabel]]:
        """The `top_k` likeliest labels of each image, or all labels if there are fewer, best
        first. Raises OutOfMemory or DeviceFault."""

        def rank(places: list[int], pixels: torch.Tensor) -> list[list[ScoredLabel]]:
            logits = self._model(pixels).logits.float()
            best = logits.softmax(dim=1).topk(min(top_k, logits.shape[1]))
            found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            return [
                [ScoredLabel(names[i], score) for i, score in zip(*each, strict=True)]
                for each in found
            ]

        names = self._model.config.id2label
        return self._infer(images, rank)
