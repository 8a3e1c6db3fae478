"""The models that learn from the images, and their training: a small BLIP-2 for captions, a
ResNet that names the figure, and an RT-DETR that finds shapes and people.
"""

import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import torch
import transformers
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers.image_transforms import corners_to_center_format

from models.shapes_recipe.rendering import FigureBox, boxes, measure_ap50
from models.shapes_recipe.samples import Sample, ShapesTask, draw_batch
from models.shapes_recipe.scenes import classify, describe
from models.training import Training

#: The included models, a directory per task. Training changes only their weights.
SHIPPED: Final = Path(__file__).parents[1] / "shapes"
#: The number of images answered at once.
_AT_ONCE = 50
_IGNORED = -100
#: The positions of figures: alone, side by side, one above the other.
_KINDS = ("", " left of ", " above ")


class Learner(ABC):
    """A model for a task with its processor, loss and measure."""

    task: ClassVar[ShapesTask]
    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps = 200
    weight_decay = 0.01
    #: The class that makes and loads the model, and the function that loads its processor.
    auto: ClassVar[Any]
    load_processor: ClassVar[Any] = staticmethod(
        partial(transformers.AutoImageProcessor.from_pretrained, backend="pil")
    )

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor

    @classmethod
    def make(cls) -> Self:
        """Create an untrained learner with the configuration of the included model."""
        torch.manual_seed(0)
        folder = SHIPPED / cls.task
        config = transformers.AutoConfig.from_pretrained(folder)
        model = cls.auto.from_config(config, dtype=torch.float32)
        return cls(model, cls.load_processor(folder))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Create a learner from an exported model."""
        model = cls.auto.from_pretrained(folder, dtype=torch.float32)
        return cls(model.eval(), cls.load_processor(folder))

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        pixels, labels = self.read_pixels(samples), self.make_labels(samples)
        loss: torch.Tensor = self.model(pixels, labels=labels).loss
        return loss

    @abstractmethod
    def make_labels(self, samples: Sequence[Sample]) -> Any:
        """The right answers in the form that the model needs in training."""

    @abstractmethod
    def find_truth(self, sample: Sample) -> Any:
        """The right answer."""

    @abstractmethod
    def answer_batch(self, samples: Sequence[Sample]) -> list[Any]:
        """Answer a few samples at once."""

    def answer(self, samples: Sequence[Sample]) -> list[Any]:
        """The model's answer to each sample."""
        with torch.inference_mode():
            return [
                answer
                for start in range(0, len(samples), _AT_ONCE)
                for answer in self.answer_batch(samples[start : start + _AT_ONCE])
            ]

    def measure(self, samples: Sequence[Sample]) -> dict[str, float]:
        """The share of right answers for each part of the task, by the task's measure."""
        pairs = zip(self.answer(samples), map(self.find_truth, samples), strict=True)
        return {"all": statistics.mean(answer == truth for answer, truth in pairs)}

    def judge(self, samples: Sequence[Sample]) -> float:
        """The mean over all parts of the task."""
        return statistics.mean(self.measure(samples).values())

    def read_pixels(self, samples: Sequence[Sample]) -> torch.Tensor:
        """The images as input of the model."""
        processor = getattr(self.processor, "image_processor", self.processor)
        pictures = [sample.picture for sample in samples]
        pixels: torch.Tensor = processor(pictures, return_tensors="pt")["pixel_values"]
        return pixels

    def export(self, folder: Path) -> None:
        """Write a model directory."""
        self.model.half().save_pretrained(folder)
        self.processor.save_pretrained(folder)


class CaptioningLearner(Learner):
    """A BLIP-2 of width 128: a vision transformer of 4 layers, a Q-Former of 2, an OPT of 2.
    Its tokenizer is byte-level BPE like OPT's, with one token per word of the captions."""

    task = ShapesTask.CAPTIONING
    steps, batch_size, learning_rate = 12_500, 32, 1e-3
    auto = transformers.AutoModelForImageTextToText
    load_processor = staticmethod(transformers.AutoProcessor.from_pretrained)

    @classmethod
    def make(cls) -> Self:
        learner = super().make()
        model = learner.model
        model.generation_config = transformers.GenerationConfig.from_pretrained(
            SHIPPED / cls.task
        )
        # Transformers initialises all queries with zeros, and equal queries would stay equal.
        torch.nn.init.normal_(model.query_tokens, std=0.5)
        # The positions must not drown in the content of the patches.
        torch.nn.init.normal_(model.vision_model.embeddings.position_embedding, std=0.5)
        width = model.config.vision_config.hidden_size
        model.hints = torch.nn.ModuleList(
            torch.nn.Linear(width, len(_KINDS)) for _ in range(2)
        )
        return learner

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Add to the model's loss the cross-entropy of the figures' relation, predicted from
        the mean outputs of the vision transformer and the Q-Former. Without this hint, its word
        in the caption, which needs both figures' places, remains a guess until long after
        everything else is learnt."""
        rows, labels = self.make_labels(samples)
        outputs = self.model(
            pixel_values=self.read_pixels(samples),
            input_ids=rows,
            attention_mask=(rows != self.processor.tokenizer.pad_token_id).long(),
            labels=labels,
        )
        captions = map(self.find_truth, samples)
        kinds = torch.tensor(
            [max(n for n, word in enumerate(_KINDS) if word in c) for c in captions]
        )
        states = (outputs.vision_outputs[0], outputs.qformer_outputs[0])
        losses = [
            cross_entropy(hint(state.mean(1)), kinds)
            for hint, state in zip(self.model.hints, states, strict=True)
        ]
        loss: torch.Tensor = outputs.loss + torch.stack(losses).sum()
        return loss

    def make_labels(
        self, samples: Sequence[Sample]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens of prompts and captions, and the labels, which ignore the prompts."""
        tokenizer, config = self.processor.tokenizer, self.model.config
        pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
        prompt = [config.image_token_index] * config.num_query_tokens + [eos]
        captions = list(map(self.find_truth, samples))
        tokens = tokenizer(captions, add_special_tokens=False)["input_ids"]
        rows = pad_sequence(
            [torch.tensor([*prompt, *caption, eos]) for caption in tokens],
            batch_first=True,
            padding_value=pad,
        )
        labels = rows.masked_fill(rows == pad, _IGNORED)
        labels[:, : len(prompt)] = _IGNORED
        return rows, labels

    def find_truth(self, sample: Sample) -> str:
        return describe(sample.scene)

    def answer_batch(self, samples: Sequence[Sample]) -> list[str]:
        tokens = self.model.generate(
            self.read_pixels(samples), generation_config=self.model.generation_config
        )
        captions = self.processor.batch_decode(tokens, skip_special_tokens=True)
        return [caption.strip() for caption in captions]

    def export(self, folder: Path) -> None:
        """Write model and processor, without the hints that only training needs."""
        del self.model.hints
        super().export(folder)
        # Checkpoints on the hub have the picture's size in this file, too.
        self.processor.image_processor.save_pretrained(folder)


class ClassificationLearner(Learner):
    """A ResNet with its image processor: four stages of one basic block, 16 to 96 channels."""

    task = ShapesTask.CLASSIFICATION
    steps, batch_size, learning_rate = 2000, 64, 2e-3
    auto = transformers.AutoModelForImageClassification

    def make_labels(self, samples: Sequence[Sample]) -> torch.Tensor:
        ids = self.model.config.label2id
        return torch.tensor([ids[self.find_truth(sample)] for sample in samples])

    def find_truth(self, sample: Sample) -> str:
        return classify(sample.scene)

    def answer_batch(self, samples: Sequence[Sample]) -> list[str]:
        logits = self.model(self.read_pixels(samples)).logits
        names = self.model.config.id2label
        return [names[number] for number in logits.argmax(-1).tolist()]


class DetectionLearner(Learner):
    """An RT-DETR with its image processor: four stages of one block, width 64, three decoder
    layers, 30 queries. Its loss covers matching, boxes, labels and denoising of all layers."""

    task = ShapesTask.DETECTION
    steps, batch_size, learning_rate = 2000, 16, 8e-4
    weight_decay = 1e-4
    auto = transformers.AutoModelForObjectDetection

    @classmethod
    def make(cls) -> Self:
        learner = super().make()
        for module in learner.model.modules():
            # Transformers initialises these near zero, where nothing is learnt.
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.ones_(module.weight)
        # A fifth faster on a CPU.
        learner.model.to(memory_format=torch.channels_last)
        return learner

    def make_labels(self, samples: Sequence[Sample]) -> list[dict[str, torch.Tensor]]:
        return list(map(self._label, samples))

    def _label(self, sample: Sample) -> dict[str, torch.Tensor]:
        """Return the labels, and the boxes as centre and size in shares of the image."""
        found = self.find_truth(sample)
        ids = self.model.config.label2id
        height, width, _ = sample.picture.shape
        corners = torch.tensor([(b.left, b.top, b.right, b.bottom) for b in found])
        corners = corners / torch.tensor([width, height, width, height])
        return {
            "class_labels": torch.tensor([ids[box.label] for box in found]),
            "boxes": corners_to_center_format(corners.clamp(0, 1)),
        }

    def find_truth(self, sample: Sample) -> list[FigureBox]:
        """The boxes to find, in pixels of the sample's image."""
        height, width, _ = sample.picture.shape
        return boxes(sample.scene, width, height)

    def answer_batch(self, samples: Sequence[Sample]) -> list[list[FigureBox]]:
        """Return all boxes that the model finds in each image, including unlikely ones."""
        answers = self.processor.post_process_object_detection(
            self.model(self.read_pixels(samples)),
            threshold=0.0,
            target_sizes=[sample.picture.shape[:2] for sample in samples],
        )
        names = self.model.config.id2label
        keys = ("labels", "boxes", "scores")
        return [
            [
                FigureBox(names[label], *(*box, score))
                for label, box, score in zip(
                    *(answer[key].tolist() for key in keys), strict=True
                )
            ]
            for answer in answers
        ]

    def measure(self, samples: Sequence[Sample]) -> dict[str, float]:
        """The AP50 of each label."""
        return measure_ap50(list(map(self.find_truth, samples)), self.answer(samples))

    def export(self, folder: Path) -> None:
        self.model.to(memory_format=torch.contiguous_format)
        super().export(folder)


LEARNERS: Final[dict[ShapesTask, type[Learner]]] = {
    learner.task: learner
    for learner in (CaptioningLearner, ClassificationLearner, DetectionLearner)
}


class ShapesTrainer(Training):
    """The training of a learner, in steps and processor time."""

    clock = staticmethod(time.process_time)

    def __init__(self, learner: Learner, folder: Path) -> None:
        self.learner = learner
        rates = {"lr": learner.learning_rate, "weight_decay": learner.weight_decay}
        super().__init__(learner.model, folder, **rates)

    @property
    def done(self) -> float:
        return self.step / self.learner.steps

    def measure_loss(self) -> torch.Tensor:
        samples = draw_batch(self.learner.task, self.step, self.learner.batch_size)
        return self.learner.measure_loss(samples)

    def find_rate(self) -> float:
        """Warm up, then follow a cosine to zero."""
        warmup = min(1.0, (self.step + 1) / self.learner.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * self.done))
        return self.learner.learning_rate * warmup * cosine
