"""The detection task: the objects in an image, best first, with boxes in pixels."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForObjectDetection

from handlers.base import ModelConfig, Result, Row
from handlers.engine.vision.engine import Image
from handlers.images import BLACK, ImageHandler
from handlers.schemas import DetectionRow

#: An image, and the score that returned objects must exceed.
_Item = tuple[Image, float]
#: The sides of a box, from the image's upper left corner.
_SIDES = ("left", "top", "right", "bottom")


class DetectionHandler(ImageHandler[_Item]):
    """The handler of one object detector. A batch's images may have different sizes."""

    kind = AutoModelForObjectDetection

    def load_model(self, config: ModelConfig) -> None:
        super().load_model(config)
        self.compute([(self.engine.preprocess(BLACK), 0.5)])

    def preprocess(self, row: Row) -> _Item:
        threshold = row.read_parameters(DetectionRow).threshold
        return self.read_image(row), threshold

    def compute(self, items: Sequence[_Item]) -> list[Result]:
        return self.engine.infer(items, self._find_objects)

    def _find_objects(
        self, items: Sequence[_Item], pixels: torch.Tensor
    ) -> list[Result]:
        output = self.engine.model(pixels)
        # Boxes in half precision would be off by pixels in a large image.
        output.logits = output.logits.float()
        output.pred_boxes = output.pred_boxes.float()
        found = self.engine.processor.post_process_object_detection(
            output,
            threshold=min(threshold for _, threshold in items),
            target_sizes=[(image.height, image.width) for image, _ in items],
        )
        return [
            {
                "objects": self._describe_objects(*item, objects),
                "width": item[0].width,
                "height": item[0].height,
            }
            for item, objects in zip(items, found, strict=True)
        ]

    def _describe_objects(
        self, image: Image, threshold: float, found: Mapping[str, torch.Tensor]
    ) -> list[dict[str, Any]]:
        scores, order = found["scores"].sort(descending=True, stable=True)
        kept = order[scores > threshold]
        limits = torch.tensor(2 * (image.width, image.height), device=kept.device)
        boxes = found["boxes"][kept].clamp(min=torch.zeros_like(limits), max=limits)
        names = self.engine.model.config.id2label
        return [
            {
                "label": names[label],
                "score": round(score, 4),
                "box": {k: round(v, 1) for k, v in zip(_SIDES, box, strict=True)},
            }
            for label, score, box in zip(
                found["labels"][kept].tolist(),
                found["scores"][kept].tolist(),
                boxes.tolist(),
                strict=True,
            )
        ]
