"""Trains a learner on images drawn on the fly, with checkpoints."""

from __future__ import annotations

import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from transformers import AutoImageProcessor

from models.shapes_recipe.samples import Sample, ShapesTask, draw_batch, held_out
from models.training import Training


@dataclass(frozen=True)
class LearningPlan:
    """The length and the rates of learning."""

    steps: int
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    weight_decay: float = 0.01
    check_every: int = 500
    checked: int = 300


class Learner(ABC):
    """A model for a task with its processor, its loss and its measure."""

    task: ClassVar[ShapesTask]
    recipe: LearningPlan
    #: The class that loads the exported model.
    auto: ClassVar[Any]
    #: Images that are answered at once.
    at_once: ClassVar[int]

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor

    @classmethod
    @abstractmethod
    def make(cls) -> Self:
        """An untrained learner."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """A learner with an exported model."""
        model = cls.auto.from_pretrained(folder, dtype=torch.float32)
        return cls(model.eval(), cls.load_processor(folder))

    @classmethod
    def load_processor(cls, folder: Path) -> Any:
        return AutoImageProcessor.from_pretrained(folder, backend="pil")

    @abstractmethod
    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Measure the model's loss on these samples."""

    @abstractmethod
    def judge(self, samples: Sequence[Sample]) -> float:
        """The share of right answers, by the task's own measure."""

    def export(self, folder: Path) -> None:
        """Writes a model directory."""
        self.model.half().save_pretrained(folder)
        self.processor.save_pretrained(folder)

    def divide(self, samples: Sequence[Sample]) -> Iterator[Sequence[Sample]]:
        for start in range(0, len(samples), self.at_once):
            yield samples[start : start + self.at_once]


def share(answers: Sequence[str], truth: Iterable[str]) -> float:
    """The share of answers that are the truth."""
    return statistics.mean(map(str.__eq__, answers, truth))


def read_pixels(processor: Any, samples: Sequence[Sample]) -> torch.Tensor:
    """The images as a model reads them."""
    pictures = [sample.picture for sample in samples]
    pixels: torch.Tensor = processor(pictures, return_tensors="pt")["pixel_values"]
    return pixels


class ShapesTrainer(Training):
    """A learner, its optimiser, and the steps and processor time they have taken."""

    clock = staticmethod(time.process_time)

    def __init__(self, learner: Learner, folder: Path) -> None:
        self.learner = learner
        self.recipe = recipe = learner.recipe
        rates = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
        super().__init__(learner.model, folder, **rates)

    @property
    def done(self) -> float:
        return self.step / self.recipe.steps

    def measure_loss(self) -> torch.Tensor:
        samples = draw_batch(self.learner.task, self.step, self.recipe.batch_size)
        return self.learner.measure_loss(samples)

    def find_rate(self) -> float:
        """Warm-up, then a cosine to nothing."""
        warmup = min(1.0, (self.step + 1) / self.recipe.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * self.done))
        return self.recipe.learning_rate * warmup * cosine

    def check(self) -> str:
        if self.step % self.recipe.check_every:
            return ""
        self.model.eval()
        samples = list(held_out(self.learner.task, self.recipe.checked, seed=1))
        right = self.learner.judge(samples)
        self.model.train()
        return f"held out: {right:.1%} right"
