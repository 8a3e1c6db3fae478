"""A small RT-DETR that finds shapes and people: its configuration, loss and answers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForObjectDetection,
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrImageProcessorPil,
    RTDetrResNetConfig,
)

from models.shapes_recipe.precision import FoundBox, measure_ap50
from models.shapes_recipe.rendering import FigureBox, boxes
from models.shapes_recipe.samples import Sample, ShapesTask
from models.shapes_recipe.scenes import PERSON, SHAPES
from models.shapes_recipe.training import Learner, LearningPlan, read_pixels

LABELS = (*SHAPES, PERSON)
_SIDE = 128
_WIDTH = 64


def make_config() -> RTDetrConfig:
    """Four stages of one block, width 64, three decoder layers, 30 queries."""
    backbone = RTDetrResNetConfig(
        embedding_size=24,
        hidden_sizes=[24, 48, 64, 96],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    return RTDetrConfig(
        backbone_config=backbone,
        freeze_backbone_batch_norms=False,
        encoder_in_channels=[48, 64, 96],
        encoder_hidden_dim=_WIDTH,
        encoder_ffn_dim=128,
        encoder_attention_heads=4,
        hidden_expansion=1.0,
        d_model=_WIDTH,
        decoder_in_channels=[_WIDTH] * 3,
        decoder_ffn_dim=128,
        decoder_layers=3,
        decoder_attention_heads=4,
        num_queries=30,
        num_denoising=24,
        initializer_range=0.05,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )


class DetectionLearner(Learner):
    """RT-DETR with its image processor."""

    task = ShapesTask.DETECTION
    recipe = LearningPlan(
        steps=2000, batch_size=16, learning_rate=8e-4, weight_decay=1e-4
    )
    auto = AutoModelForObjectDetection
    at_once = 50

    @classmethod
    def make(cls) -> DetectionLearner:
        torch.manual_seed(0)
        model = RTDetrForObjectDetection(make_config())
        for module in model.modules():
            # Transformers starts these near zero, from which nothing is learnt.
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.ones_(module.weight)
        model.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
        size = {"height": _SIDE, "width": _SIDE}
        return cls(model, RTDetrImageProcessorPil(size=size))

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        """The model's own: matching, boxes, labels, denoising, all layers."""
        pixels = read_pixels(self.processor, samples)
        loss: torch.Tensor = self.model(pixels, labels=[*map(_label, samples)]).loss
        return loss

    def judge(self, samples: Sequence[Sample]) -> float:
        return statistics.mean(self.measure(samples).values())

    def measure(self, samples: Sequence[Sample]) -> dict[str, float]:
        """AP50 of each label."""
        return measure_ap50([find_boxes(s) for s in samples], self.detect(samples))

    def detect(self, samples: Sequence[Sample]) -> list[list[FoundBox]]:
        """All boxes that the model sees in each image, unlikely ones included."""
        found: list[list[FoundBox]] = []
        for batch in self.divide(samples):
            with torch.inference_mode():
                outputs = self.model(read_pixels(self.processor, batch))
            answers = self.processor.post_process_object_detection(
                outputs,
                threshold=0.0,
                target_sizes=[s.picture.shape[:2] for s in batch],
            )
            found += [_read(answer) for answer in answers]
        return found

    def export(self, folder: Path) -> None:
        self.model.to(memory_format=torch.contiguous_format)
        super().export(folder)


def find_boxes(sample: Sample) -> list[FigureBox]:
    """The boxes to find, in pixels of the sample's image."""
    height, width, _ = sample.picture.shape
    return boxes(sample.scene, width, height)


def _label(sample: Sample) -> dict[str, torch.Tensor]:
    """Labels, and boxes as centre and extent in shares of the image."""
    found = find_boxes(sample)
    height, width, _ = sample.picture.shape
    corners = torch.tensor([(b.left, b.top, b.right, b.bottom) for b in found])
    corners = corners / torch.tensor([width, height, width, height])
    low, high = corners[:, :2].clamp(0, 1), corners[:, 2:].clamp(0, 1)
    return {
        "class_labels": torch.tensor([LABELS.index(box.label) for box in found]),
        "boxes": torch.cat([(low + high) / 2, high - low], dim=1),
    }


def _read(answer: dict[str, Any]) -> list[FoundBox]:
    return [
        FoundBox(FigureBox(LABELS[label], *box), score)
        for label, box, score in zip(
            answer["labels"].tolist(),
            answer["boxes"].tolist(),
            answer["scores"].tolist(),
            strict=True,
        )
    ]
