"""The classification task: the likeliest labels of an image, at most `top_k`."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.base import ModelConfig, Outcome, Result, Row, TaskHandler
from handlers.engine.vision.classifier import ClassificationEngine, ScoredLabel
from handlers.engine.vision.engine import Image
from handlers.images import BLACK, answer_images, place_engine, read_frame
from handlers.schemas import ClassificationRow

#: An image, and how many labels it is to have.
_Item = tuple[Image, int]


class ClassificationHandler(TaskHandler[_Item]):
    """Serves one image classifier. A batch's images are classified together."""

    def load_model(self, config: ModelConfig) -> None:
        self.max_pixels: int = config.options["max_pixels"]
        self.engine = place_engine(ClassificationEngine, config)
        self.engine.classify([self.engine.preprocess(BLACK)], top_k=1)

    def preprocess(self, row: Row) -> _Item:
        top_k = row.read_parameters(ClassificationRow).top_k
        return self.engine.preprocess(read_frame(row, self.max_pixels)), top_k

    def infer(self, items: Sequence[_Item], deadline: float) -> Outcome:
        return answer_images(self._classify, items, _describe)

    def _classify(self, items: Sequence[_Item]) -> list[list[ScoredLabel]]:
        images = [image for image, _ in items]
        return self.engine.classify(images, top_k=max(top_k for _, top_k in items))


def _describe(item: _Item, labels: list[ScoredLabel]) -> Result:
    _, top_k = item
    return {
        "labels": [
            {"label": label.label, "score": round(label.score, 4)}
            for label in labels[:top_k]
        ]
    }
