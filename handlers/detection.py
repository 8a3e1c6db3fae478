"""The detection task: the objects in an image with a score of at least `threshold`,
best first, with boxes in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from handlers.base import ModelConfig, Row, TaskError, TaskHandler
from handlers.engine.errors import OutOfMemory
from handlers.engine.halving import run_in_halves
from handlers.engine.vision.detector import DetectionEngine, Object, Question
from handlers.images import (
    BLACK,
    MAX_PIXELS,
    no_memory,
    place_engine,
    read_picture,
)
from handlers.schemas import DetectionParameters


class DetectionHandler(TaskHandler[Question]):
    """Serves one object detector. A batch's pictures may have different sizes."""

    def setup(self, config: ModelConfig) -> None:
        self.max_pixels: int = config.options.get("max_pixels", MAX_PIXELS)
        self.engine = place_engine(DetectionEngine, config)
        self.engine.detect([Question(self.engine.prepare(BLACK), threshold=0.5)])

    def parse(self, row: Row) -> Question:
        threshold = row.read_parameters(DetectionParameters).threshold
        picture = self.engine.prepare(read_picture(row, self.max_pixels))
        return Question(picture, threshold)

    def run(self, items: Sequence[Question]) -> list[dict[str, Any] | TaskError]:
        halved: list[int] = []
        answers = run_in_halves(self.engine.detect, items, halved)
        self.statistics.update(
            BabelgateFrames=len(items), BabelgateHalvedPacks=len(halved)
        )
        return [
            _answer(item, answer) for item, answer in zip(items, answers, strict=True)
        ]


def _answer(
    item: Question, objects: list[Object] | OutOfMemory
) -> dict[str, Any] | TaskError:
    if isinstance(objects, OutOfMemory):
        return no_memory()
    return {
        "objects": [_describe(found) for found in objects],
        "width": item.picture.width,
        "height": item.picture.height,
    }


def _describe(found: Object) -> dict[str, Any]:
    box = {side: round(pixels, 1) for side, pixels in asdict(found.box).items()}
    return {"label": found.label, "score": round(found.score, 4), "box": box}
