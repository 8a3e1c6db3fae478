"""Finds objects in images with any object detector of Transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import AutoModelForObjectDetection

from handlers.engine.vision.engine import Image, VisionEngine


@dataclass(frozen=True, eq=False)
class Question:
    """An image, and the score above which its objects are wanted."""

    image: Image
    threshold: float


@dataclass(frozen=True)
class BoundingBox:
    """A box in pixels of the image, from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Object:
    """An object in an image: its label, its score from 0 to 1, and its place."""

    label: str
    score: float
    box: BoundingBox


class DetectionEngine(VisionEngine):
    """Detects with a Hugging Face directory."""

    kind = AutoModelForObjectDetection

    def detect(self, questions: Sequence[Question]) -> list[list[Object]]:
        """Each image's objects, best score first. Raises OutOfMemory or DeviceFault."""
        images = [question.image for question in questions]

        def find(places: list[int], pixels: torch.Tensor) -> list[list[Object]]:
            return self._find([questions[place] for place in places], pixels)

        return self._infer(images, find)

    def _find(
        self, questions: Sequence[Question], pixels: torch.Tensor
    ) -> list[list[Object]]:
        output = self._model(pixels)
        # Boxes in half precision would be off by pixels in a large image.
        output.logits = output.logits.float()
        output.pred_boxes = output.pred_boxes.float()
        found = self.processor.post_process_object_detection(
            output,
            threshold=min(question.threshold for question in questions),
            target_sizes=[(q.image.height, q.image.width) for q in questions],
        )
        return [
            self._list_objects(question, objects)
            for question, objects in zip(questions, found, strict=True)
        ]

    def _list_objects(
        self, question: Question, found: Mapping[str, torch.Tensor]
    ) -> list[Object]:
        size = (question.image.width, question.image.height)
        scores, order = found["scores"].sort(descending=True, stable=True)
        kept = order[scores > question.threshold]
        limits = torch.tensor(2 * size, device=kept.device)
        boxes = found["boxes"][kept].clamp(min=torch.zeros_like(limits), max=limits)
        names = self._model.config.id2label
        return [
            Object(names[label], score, BoundingBox(*box))
            for label, score, box in zip(
                found["labels"][kept].tolist(),
                found["scores"][kept].tolist(),
                boxes.tolist(),
                strict=True,
            )
        ]
