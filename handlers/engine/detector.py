"""Pictures in, the objects on them out: any object detector of Transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForObjectDetection

from handlers.engine.images import Frame
from handlers.engine.inference import choose_device, infer
from handlers.engine.pixels import Inputs, Preprocessor


@dataclass(frozen=True, eq=False)
class Question:
    """A picture, and over which score its objects are wanted."""

    frame: Frame
    threshold: float


@dataclass(frozen=True)
class Box:
    """In pixels of the picture, from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Object:
    """What is on a picture, how sure that is, from 0 to 1, and where."""

    label: str
    score: float
    box: Box


class DetectionEngine:
    """Detects with a Hugging Face directory."""

    def __init__(
        self,
        directory: Path,
        *,
        device: str = "cpu",
        index: int = 0,
        compute_type: str = "float32",
    ) -> None:
        self._device = choose_device(device, index)
        dtype = getattr(torch, compute_type)
        self._model = (
            AutoModelForObjectDetection.from_pretrained(
                directory, dtype=dtype, local_files_only=True, use_safetensors=True
            )
            .to(self._device)
            .eval()
        )
        self._preprocess = Preprocessor(directory, device=self._device, dtype=dtype)

    def detect(self, questions: Sequence[Question]) -> list[list[Object]]:
        """The objects on each picture, the surest first. Raises OutOfMemory or
        DeviceFault."""
        frames = [question.frame for question in questions]

        def find(places: list[int], inputs: Inputs) -> list[list[Object]]:
            return self._find([questions[place] for place in places], inputs)

        return infer(lambda: self._preprocess.run(frames, find))

    def _find(
        self, questions: Sequence[Question], inputs: Inputs
    ) -> list[list[Object]]:
        output = self._model(**inputs)
        # Boxes of half precision would be off by pixels on a large picture.
        output.logits = output.logits.float()
        output.pred_boxes = output.pred_boxes.float()
        found = self._preprocess.processor.post_process_object_detection(
            output,
            threshold=min(question.threshold for question in questions),
            target_sizes=[question.frame.shape[:2] for question in questions],
        )
        return [
            self._read(question, objects)
            for question, objects in zip(questions, found, strict=True)
        ]

    def _read(
        self, question: Question, found: Mapping[str, torch.Tensor]
    ) -> list[Object]:
        height, width = question.frame.shape[:2]
        scores, order = found["scores"].sort(descending=True, stable=True)
        kept = order[scores > question.threshold]
        limits = torch.tensor([width, height] * 2, device=kept.device)
        boxes = found["boxes"][kept].clamp(min=torch.zeros_like(limits), max=limits)
        names = self._model.config.id2label
        return [
            Object(names[label], score, Box(*box))
            for label, score, box in zip(
                found["labels"][kept].tolist(),
                found["scores"][kept].tolist(),
                boxes.tolist(),
                strict=True,
            )
        ]
