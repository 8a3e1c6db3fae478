"""The detection task: the objects in an image, best first, with boxes in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from handlers.base import ModelConfig, Outcome, Result, Row, TaskHandler
from handlers.engine.vision.detector import DetectionEngine, Object, Question
from handlers.images import BLACK, answer_images, place_engine, read_frame
from handlers.schemas import DetectionRow


class DetectionHandler(TaskHandler[Question]):
    """Serves one object detector. A batch's images may have different sizes."""

    def load_model(self, config: ModelConfig) -> None:
        self.max_pixels: int = config.options["max_pixels"]
        self.engine = place_engine(DetectionEngine, config)
        self.engine.detect([Question(self.engine.preprocess(BLACK), threshold=0.5)])

    def preprocess(self, row: Row) -> Question:
        threshold = row.read_parameters(DetectionRow).threshold
        image = self.engine.preprocess(read_frame(row, self.max_pixels))
        return Question(image, threshold)

    def infer(self, items: Sequence[Question], deadline: float) -> Outcome:
        return answer_images(self.engine.detect, items, _describe)


def _describe(item: Question, objects: list[Object]) -> Result:
    return {
        "objects": [_describe_object(found) for found in objects],
        "width": item.image.width,
        "height": item.image.height,
    }


def _describe_object(found: Object) -> dict[str, Any]:
    box = {side: round(pixels, 1) for side, pixels in asdict(found.box).items()}
    return {"label": found.label, "score": round(found.score, 4), "box": box}
