"""The classification task: the likeliest labels of an image, at most `top_k`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handlers.base import ModelConfig, Row, TaskError, TaskHandler
from handlers.engine.errors import OutOfMemory
from handlers.engine.halving import run_in_halves
from handlers.engine.vision.classifier import ClassificationEngine, Label
from handlers.engine.vision.preprocessing import Picture
from handlers.images import (
    BLACK,
    MAX_PIXELS,
    no_memory,
    place_engine,
    read_picture,
)
from handlers.schemas import ClassificationParameters

#: A picture, and how many labels it is to have.
_Item = tuple[Picture, int]


class ClassificationHandler(TaskHandler[_Item]):
    """Serves one image classifier. A batch's pictures are classified together."""

    def setup(self, config: ModelConfig) -> None:
        self.max_pixels: int = config.options.get("max_pixels", MAX_PIXELS)
        self.engine = place_engine(ClassificationEngine, config)
        self.engine.classify([self.engine.prepare(BLACK)], top_k=1)

    def parse(self, row: Row) -> _Item:
        top_k = row.read_parameters(ClassificationParameters).top_k
        return self.engine.prepare(read_picture(row, self.max_pixels)), top_k

    def run(self, items: Sequence[_Item]) -> list[dict[str, Any] | TaskError]:
        halved: list[int] = []
        answers = run_in_halves(self._classify, items, halved)
        self.statistics.update(
            BabelgateFrames=len(items), BabelgateHalvedPacks=len(halved)
        )
        return [
            _answer(answer, top_k)
            for (_, top_k), answer in zip(items, answers, strict=True)
        ]

    def _classify(self, items: Sequence[_Item]) -> list[list[Label]]:
        pictures = [picture for picture, _ in items]
        return self.engine.classify(pictures, top_k=max(top_k for _, top_k in items))


def _answer(
    labels: list[Label] | OutOfMemory, top_k: int
) -> dict[str, Any] | TaskError:
    if isinstance(labels, OutOfMemory):
        return no_memory()
    return {
        "labels": [
            {"label": label.label, "score": round(label.score, 4)}
            for label in labels[:top_k]
        ]
    }
