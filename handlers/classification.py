"""The classification task: the likeliest labels of an image, at most `top_k`."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.base import ModelConfig, Outcome, Result, Row, TaskHandler
from handlers.engine.errors import OutOfMemory
from handlers.engine.halving import run_in_halves
from handlers.engine.vision.classifier import ClassificationEngine, Label
from handlers.engine.vision.preprocessing import Image
from handlers.images import (
    BLACK,
    no_memory,
    place_engine,
    read_frame,
)
from handlers.schemas import ClassificationParameters

#: An image, and how many labels it is to have.
_Item = tuple[Image, int]


class ClassificationHandler(TaskHandler[_Item]):
    """Serves one image classifier. A batch's images are classified together."""

    def load_model(self, config: ModelConfig) -> None:
        self.max_pixels: int = config.options["max_pixels"]
        self.engine = place_engine(ClassificationEngine, config)
        self.engine.classify([self.engine.preprocess(BLACK)], top_k=1)

    def preprocess(self, row: Row) -> _Item:
        top_k = row.read_parameters(ClassificationParameters).top_k
        return self.engine.preprocess(read_frame(row, self.max_pixels)), top_k

    def infer(self, items: Sequence[_Item], deadline: float) -> Outcome:
        answers, halved = run_in_halves(self._classify, items)
        results = [
            _answer(answer, top_k)
            for (_, top_k), answer in zip(items, answers, strict=True)
        ]
        return Outcome(
            results, {"BabelgateFrames": len(items), "BabelgateHalvedPacks": halved}
        )

    def _classify(self, items: Sequence[_Item]) -> list[list[Label]]:
        images = [image for image, _ in items]
        return self.engine.classify(images, top_k=max(top_k for _, top_k in items))


def _answer(labels: list[Label] | OutOfMemory, top_k: int) -> Result:
    if isinstance(labels, OutOfMemory):
        return no_memory()
    return {
        "labels": [
            {"label": label.label, "score": round(label.score, 4)}
            for label in labels[:top_k]
        ]
    }
