"""A small ResNet that names the figure in an image: its configuration, loss and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    ConvNextImageProcessorPil,
    ResNetConfig,
    ResNetForImageClassification,
)

from models.shapes_recipe.samples import Sample, Task
from models.shapes_recipe.scenes import COLOURS, SHAPES, classify
from models.shapes_recipe.training import Recipe, read_pixels

LABELS = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
_SIDE = 64
_JUDGED_AT_ONCE = 100


def make_config() -> ResNetConfig:
    """Four stages of one basic block, 16 to 96 channels."""
    return ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 64, 96],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )


class ClassificationLearner:
    """ResNet with its image processor."""

    task = Task.CLASSIFICATION
    recipe = Recipe(steps=2000, batch_size=64, learning_rate=2e-3)

    def __init__(
        self,
        model: ResNetForImageClassification,
        processor: ConvNextImageProcessorPil,
    ) -> None:
        self.model = model
        self.processor = processor

    @classmethod
    def make(cls) -> ClassificationLearner:
        """An untrained learner."""
        torch.manual_seed(0)
        model = ResNetForImageClassification(make_config())
        size = {"shortest_edge": _SIDE}
        return cls(model, ConvNextImageProcessorPil(size=size, crop_pct=0.875))

    @classmethod
    def load(cls, folder: Path) -> ClassificationLearner:
        """A learner with an exported model."""
        model = AutoModelForImageClassification.from_pretrained(
            folder, dtype=torch.float32
        )
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        return cls(model.eval(), processor)

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Cross-entropy of the labels."""
        labels = [LABELS.index(classify(sample.scene)) for sample in samples]
        pixels = read_pixels(self.processor, samples)
        loss: torch.Tensor = self.model(pixels, labels=torch.tensor(labels)).loss
        return loss

    def judge(self, samples: Sequence[Sample]) -> float:
        """The accuracy."""
        labels = self.label(samples)
        right = sum(
            label == classify(sample.scene)
            for label, sample in zip(labels, samples, strict=True)
        )
        return right / len(samples)

    def label(self, samples: Sequence[Sample]) -> list[str]:
        """The best label of each image."""
        labels: list[str] = []
        for start in range(0, len(samples), _JUDGED_AT_ONCE):
            pixels = read_pixels(
                self.processor, samples[start : start + _JUDGED_AT_ONCE]
            )
            with torch.inference_mode():
                best = self.model(pixels).logits.argmax(-1).tolist()
            labels += [self.model.config.id2label[number] for number in best]
        return labels

    def export(self, folder: Path) -> None:
        """Writes model and processor."""
        self.model.half().save_pretrained(folder)
        self.processor.save_pretrained(folder)
