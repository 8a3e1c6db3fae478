"""Trains a learner on images drawn on the fly, with checkpoints."""

from __future__ import annotations

import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from transformers import AutoImageProcessor

from models.shapes_recipe.samples import Sample, Task, draw_batch, held_out

CHECKPOINT = "checkpoint.pt"
_LOG_EVERY = 50


@dataclass(frozen=True)
class Recipe:
    """How long and how fast to learn."""

    steps: int
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    weight_decay: float = 0.01
    check_every: int = 500
    checked: int = 300


class Learner(ABC):
    """A model for a task with its processor, its loss and its measure."""

    task: ClassVar[Task]
    recipe: Recipe
    #: What loads the exported model.
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
        """How wrong the model is on these samples."""

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


class Trainer:
    """A learner, its optimiser, and the steps and processor time they have taken."""

    def __init__(self, learner: Learner, folder: Path) -> None:
        self.learner = learner
        self.recipe = learner.recipe
        self.checkpoint = folder / CHECKPOINT
        self.optimizer = torch.optim.AdamW(
            learner.model.parameters(),
            lr=self.recipe.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=self.recipe.weight_decay,
        )
        self.step = 0
        self.cpu_s = 0.0
        if self.checkpoint.exists():
            self._restore()

    def run(self, say: Callable[[str], None]) -> None:
        """Trains to the last step. A run that was stopped continues from the last check."""
        losses: list[float] = []
        while self.step < self.recipe.steps:
            started = time.process_time()
            losses.append(self._train())
            self.cpu_s += time.process_time() - started
            if self.step % _LOG_EVERY == 0:
                loss = sum(losses) / len(losses)
                losses.clear()
                say(f"{self.cpu_s / 60:.1f} min, step {self.step}, loss {loss:.4f}")
            if self.step % self.recipe.check_every == 0:
                self._save()
                say(f"held out: {self._check():.1%} right")
        self._save()

    def _train(self) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        model = self.learner.model
        model.train()
        samples = draw_batch(self.learner.task, self.step, self.recipe.batch_size)
        loss = self.learner.measure_loss(samples)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())

    def _check(self) -> float:
        self.learner.model.eval()
        samples = list(held_out(self.learner.task, self.recipe.checked, seed=1))
        return self.learner.judge(samples)

    def _learning_rate(self) -> float:
        """Warm-up, then a cosine to nothing."""
        warmup = min(1.0, (self.step + 1) / self.recipe.warmup_steps)
        done = self.step / self.recipe.steps
        cosine = 0.5 * (1 + math.cos(math.pi * done))
        return self.recipe.learning_rate * warmup * cosine

    def _save(self) -> None:
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        part = self.checkpoint.with_suffix(".part")
        torch.save(
            {
                "model": self.learner.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "cpu_s": self.cpu_s,
            },
            part,
        )
        part.replace(self.checkpoint)

    def _restore(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.learner.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.cpu_s = state["step"], state["cpu_s"]
