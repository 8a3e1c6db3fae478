"""The classification task: the likeliest labels of an image, at most `top_k`."""

from collections.abc import Sequence

import torch
from transformers import AutoModelForImageClassification

from handlers.base import ModelConfig, Result, Row
from handlers.engine.vision.engine import Image
from handlers.images import BLACK, ImageHandler
from handlers.schemas import ClassificationRow

#: An image, and the number of labels to return.
_Item = tuple[Image, int]


class ClassificationHandler(ImageHandler[_Item]):
    """The handler of one image classifier. A batch's images are classified together."""

    kind = AutoModelForImageClassification

    def load_model(self, config: ModelConfig) -> None:
        super().load_model(config)
        self.compute([(self.engine.preprocess(BLACK), 1)])

    def preprocess(self, row: Row) -> _Item:
        top_k = row.read_parameters(ClassificationRow).top_k
        return self.read_image(row), top_k

    def compute(self, items: Sequence[_Item]) -> list[Result]:
        return self.engine.infer(items, self._rank)

    def _rank(self, items: Sequence[_Item], pixels: torch.Tensor) -> list[Result]:
        logits = self.engine.model(pixels).logits.float()
        names = self.engine.model.config.id2label
        most = min(max(top_k for _, top_k in items), logits.shape[1])
        best = logits.softmax(dim=1).topk(most)
        return [
            {
                "labels": [
                    {"label": names[i], "score": round(score, 4)}
                    for i, score in zip(indices[:top_k], scores[:top_k], strict=True)
                ]
            }
            for (_, top_k), indices, scores in zip(
                items, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]
