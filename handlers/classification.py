"""The classification task: the likeliest labels of an image, at most `top_k`."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForImageClassification

from handlers.base import ModelConfig, Result, Row
from handlers.engine.vision.engine import Image
from handlers.images import BLACK, ImageHandler
from handlers.schemas import ClassificationRow

#: An image, and how many labels it is to have.
_Item = tuple[Image, int]


class ClassificationHandler(ImageHandler[_Item]):
    """Serves one image classifier. A batch's images are classified together."""

    kind = AutoModelForImageClassification

    def load_model(self, config: ModelConfig) -> None:
        super().load_model(config)
        self.compute([(self.engine.preprocess(BLACK), 1)])

    def preprocess(self, row: Row) -> _Item:
        top_k = row.read_parameters(ClassificationRow).top_k
        return self.read_image(row), top_k

    def compute(self, items: Sequence[_Item]) -> list[Result]:
        model = self.engine.model
        names = model.config.id2label

        def rank(places: list[int], pixels: torch.Tensor) -> list[list[dict[str, Any]]]:
            logits = model(pixels).logits.float()
            best = logits.softmax(dim=1).topk(min(most, logits.shape[1]))
            found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            return [
                [
                    {"label": names[i], "score": round(score, 4)}
                    for i, score in zip(*each, strict=True)
                ]
                for each in found
            ]

        most = max(top_k for _, top_k in items)
        labels = self.engine.infer([image for image, _ in items], rank)
        return [
            {"labels": found[:top_k]}
            for found, (_, top_k) in zip(labels, items, strict=True)
        ]
