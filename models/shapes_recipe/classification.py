"""A small ResNet that names the figure in an image: its configuration, loss and labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import (
    AutoModelForImageClassification,
    ConvNextImageProcessorPil,
    ResNetConfig,
    ResNetForImageClassification,
)

from models.shapes_recipe.samples import Sample, ShapesTask
from models.shapes_recipe.scenes import COLOURS, SHAPES, classify
from models.shapes_recipe.training import Learner, LearningPlan, read_pixels, share

LABELS = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
_SIDE = 64


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


class ClassificationLearner(Learner):
    """ResNet with its image processor."""

    task = ShapesTask.CLASSIFICATION
    recipe = LearningPlan(steps=2000, batch_size=64, learning_rate=2e-3)
    auto = AutoModelForImageClassification
    at_once = 100

    @classmethod
    def make(cls) -> ClassificationLearner:
        torch.manual_seed(0)
        model = ResNetForImageClassification(make_config())
        size = {"shortest_edge": _SIDE}
        return cls(model, ConvNextImageProcessorPil(size=size, crop_pct=0.875))

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        labels = [LABELS.index(classify(sample.scene)) for sample in samples]
        pixels = read_pixels(self.processor, samples)
        loss: torch.Tensor = self.model(pixels, labels=torch.tensor(labels)).loss
        return loss

    def judge(self, samples: Sequence[Sample]) -> float:
        return share(self.label(samples), (classify(s.scene) for s in samples))

    def label(self, samples: Sequence[Sample]) -> list[str]:
        labels: list[str] = []
        for batch in self.divide(samples):
            with torch.inference_mode():
                logits = self.model(read_pixels(self.processor, batch)).logits
            names = self.model.config.id2label
            labels += [names[number] for number in logits.argmax(-1).tolist()]
        return labels
