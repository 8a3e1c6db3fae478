"""Models that learn from the images: a small BLIP-2 that describes one, a ResNet that names the
figure in it, an RT-DETR that finds shapes and people. Then their training.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from torch.nn.functional import cross_entropy

from models.shapes_recipe.rendering import FigureBox, FoundBox, boxes, measure_ap50
from models.shapes_recipe.samples import Sample, ShapesTask, draw_batch, held_out
from models.shapes_recipe.scenes import (
    COLOURS,
    PERSON,
    SHAPES,
    SIZES,
    classify,
    describe,
)
from models.training import Training

#: Images that are answered at once.
_AT_ONCE = 50


@dataclass(frozen=True)
class LearningPlan:
    """The length and the rates of learning."""

    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps: int = 200
    weight_decay: float = 0.01
    check_every: int = 500
    checked: int = 300


class Learner(ABC):
    """A model for a task with its processor, its loss and its measure."""

    task: ClassVar[ShapesTask]
    recipe: LearningPlan
    #: The class that loads the exported model, and what loads its processor.
    auto: ClassVar[Any]
    load_processor: ClassVar[Any] = staticmethod(
        partial(transformers.AutoImageProcessor.from_pretrained, backend="pil")
    )

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

    @abstractmethod
    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Measure the model's loss on these samples."""

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

    def judge(self, samples: Sequence[Sample]) -> float:
        """The share of right answers, by the task's own measure."""
        truth = map(self.find_truth, samples)
        return statistics.mean(map(str.__eq__, self.answer(samples), truth))

    def read_pixels(self, samples: Sequence[Sample]) -> torch.Tensor:
        """The images as the model reads them."""
        processor = getattr(self.processor, "image_processor", self.processor)
        pictures = [sample.picture for sample in samples]
        pixels: torch.Tensor = processor(pictures, return_tensors="pt")["pixel_values"]
        return pixels

    def export(self, folder: Path) -> None:
        """Writes a model directory."""
        self.model.half().save_pretrained(folder)
        self.processor.save_pretrained(folder)


IMAGE = "<image>"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_MAX_VOCABULARY = 512
_CAPTION_SIDE = 64
_QUERIES = 8
_CAPTION_WIDTH = 128
_MAX_TOKENS = 24
_IGNORED = -100
#: The positions of figures: alone, side by side, one above the other.
_KINDS = ("", " left of ", " above ")


def make_tokenizer() -> transformers.GPT2Tokenizer:
    """Byte-level BPE as OPT has it, every word of the captions one token."""
    words = (*COLOURS, *SHAPES, *SIZES, "a", "left", "of", "above")
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=_MAX_VOCABULARY,
        min_frequency=1,
        special_tokens=list(_SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f"{word} {word}" for word in words], trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    return transformers.GPT2Tokenizer(
        vocab=learnt["vocab"],
        merges=[tuple(pair) for pair in learnt["merges"]],
        bos_token="</s>",
        eos_token="</s>",
        unk_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=[IMAGE],
        add_bos_token=True,
        padding_side="left",
        model_max_length=_QUERIES + _MAX_TOKENS,
    )


def _make_blip2(
    tokenizer: transformers.GPT2Tokenizer,
) -> transformers.Blip2ForConditionalGeneration:
    """Width 128: a vision transformer of 4 layers, a Q-Former of 2, an OPT of 2."""
    shared = {"hidden_size": _CAPTION_WIDTH, "num_attention_heads": 4}
    usual = {
        **shared,
        "intermediate_size": 2 * _CAPTION_WIDTH,
        "initializer_range": 0.05,
    }
    vision = transformers.Blip2VisionConfig(
        num_hidden_layers=4, image_size=_CAPTION_SIDE, patch_size=8, **usual
    )
    queries = transformers.Blip2QFormerConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        cross_attention_frequency=1,
        encoder_hidden_size=_CAPTION_WIDTH,
        **usual,
    )
    text = transformers.OPTConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=2,
        ffn_dim=2 * _CAPTION_WIDTH,
        max_position_embeddings=64,
        dropout=0.0,
        init_std=0.05,
        **shared,
    )
    config = transformers.Blip2Config(
        vision_config=vision,
        qformer_config=queries,
        text_config=text,
        num_query_tokens=_QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        initializer_range=0.05,
    )
    return transformers.Blip2ForConditionalGeneration(config)


class CaptioningLearner(Learner):
    """BLIP-2 with its processor."""

    task = ShapesTask.CAPTIONING
    recipe = LearningPlan(steps=12_500, batch_size=32, learning_rate=1e-3)
    auto = transformers.AutoModelForImageTextToText
    load_processor = staticmethod(transformers.AutoProcessor.from_pretrained)

    @classmethod
    def make(cls) -> CaptioningLearner:
        torch.manual_seed(0)
        tokenizer = make_tokenizer()
        size = {"height": _CAPTION_SIDE, "width": _CAPTION_SIDE}
        images = transformers.BlipImageProcessorPil(size=size)
        processor = transformers.Blip2Processor(
            images, tokenizer, num_query_tokens=_QUERIES
        )
        model = _make_blip2(tokenizer)
        # Transformers starts all queries as zeros, and what is the same stays the same.
        torch.nn.init.normal_(model.query_tokens, std=0.5)
        # Places must not drown in what the patches show.
        places = model.vision_model.embeddings.position_embedding
        torch.nn.init.normal_(places, std=0.5)
        model.hints = torch.nn.ModuleList(
            torch.nn.Linear(_CAPTION_WIDTH, len(_KINDS)) for _ in range(2)
        )
        return cls(model, processor)

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        tokenizer = self.processor.tokenizer
        pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
        captions = [describe(sample.scene) for sample in samples]
        tokens = [
            [*tokenizer(text, add_special_tokens=False)["input_ids"], eos]
            for text in captions
        ]
        longest = max(map(len, tokens))
        prompt = [self.model.config.image_token_index] * _QUERIES + [eos]
        rows = torch.tensor([prompt + t + [pad] * (longest - len(t)) for t in tokens])
        labels = rows.masked_fill(rows == pad, _IGNORED)
        labels[:, : len(prompt)] = _IGNORED
        outputs = self.model(
            pixel_values=self.read_pixels(samples),
            input_ids=rows,
            attention_mask=(rows != pad).long(),
            labels=labels,
        )
        loss: torch.Tensor = outputs.loss + self._measure_hint(outputs, captions)
        return loss

    def _measure_hint(self, outputs: Any, captions: Sequence[str]) -> torch.Tensor:
        """Cross-entropy of the figures' relation, told from the average of what the
        vision transformer and the Q-Former give. Without the hint this word of the
        caption, which needs both figures' places, stays a guess long after all else is
        learnt."""
        kinds = torch.tensor(
            [
                max(number for number, words in enumerate(_KINDS) if words in caption)
                for caption in captions
            ]
        )
        states = (outputs.vision_outputs[0], outputs.qformer_outputs[0])
        losses = [
            cross_entropy(hint(state.mean(1)), kinds)
            for hint, state in zip(self.model.hints, states, strict=True)
        ]
        return torch.stack(losses).sum()

    def find_truth(self, sample: Sample) -> str:
        return describe(sample.scene)

    def answer_batch(self, samples: Sequence[Sample]) -> list[str]:
        pixels = self.read_pixels(samples)
        tokens = self.model.generate(pixels, max_new_tokens=_MAX_TOKENS)
        captions = self.processor.batch_decode(tokens, skip_special_tokens=True)
        return [caption.strip() for caption in captions]

    def export(self, folder: Path) -> None:
        """Writes model and processor, without the hints that only training needs."""
        del self.model.hints
        self.model.generation_config = transformers.GenerationConfig(
            bos_token_id=2, eos_token_id=2, pad_token_id=1, max_new_tokens=_MAX_TOKENS
        )
        super().export(folder)
        # Checkpoints of the hub have the picture's size there, too.
        self.processor.image_processor.save_pretrained(folder)


def _number(labels: Sequence[str]) -> dict[str, Any]:
    """The labels as a configuration has them."""
    id2label = dict(enumerate(labels))
    return {"id2label": id2label, "label2id": {v: k for k, v in id2label.items()}}


#: The words of the classifier, and those of the detector.
_NAMES = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
_LABELS = (*SHAPES, PERSON)


class ClassificationLearner(Learner):
    """ResNet with its image processor: four stages of one basic block, 16 to 96 channels."""

    task = ShapesTask.CLASSIFICATION
    recipe = LearningPlan(steps=2000, batch_size=64, learning_rate=2e-3)
    auto = transformers.AutoModelForImageClassification

    @classmethod
    def make(cls) -> ClassificationLearner:
        torch.manual_seed(0)
        config = transformers.ResNetConfig(
            embedding_size=16,
            hidden_sizes=[16, 32, 64, 96],
            depths=[1, 1, 1, 1],
            layer_type="basic",
            **_number(_NAMES),
        )
        processor = transformers.ConvNextImageProcessorPil(
            size={"shortest_edge": 64}, crop_pct=0.875
        )
        return cls(transformers.ResNetForImageClassification(config), processor)

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        labels = torch.tensor([_NAMES.index(self.find_truth(s)) for s in samples])
        loss: torch.Tensor = self.model(self.read_pixels(samples), labels=labels).loss
        return loss

    def find_truth(self, sample: Sample) -> str:
        return classify(sample.scene)

    def answer_batch(self, samples: Sequence[Sample]) -> list[str]:
        logits = self.model(self.read_pixels(samples)).logits
        return [_NAMES[number] for number in logits.argmax(-1).tolist()]


class DetectionLearner(Learner):
    """RT-DETR with its image processor: four stages of one block, width 64, three decoder
    layers, 30 queries."""

    task = ShapesTask.DETECTION
    recipe = LearningPlan(
        steps=2000, batch_size=16, learning_rate=8e-4, weight_decay=1e-4
    )
    auto = transformers.AutoModelForObjectDetection

    @classmethod
    def make(cls) -> DetectionLearner:
        torch.manual_seed(0)
        backbone = transformers.RTDetrResNetConfig(
            embedding_size=24,
            hidden_sizes=[24, 48, 64, 96],
            depths=[1, 1, 1, 1],
            layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        )
        config = transformers.RTDetrConfig(
            backbone_config=backbone,
            freeze_backbone_batch_norms=False,
            encoder_in_channels=[48, 64, 96],
            encoder_hidden_dim=64,
            encoder_ffn_dim=128,
            encoder_attention_heads=4,
            hidden_expansion=1.0,
            d_model=64,
            decoder_in_channels=[64, 64, 64],
            decoder_ffn_dim=128,
            decoder_layers=3,
            decoder_attention_heads=4,
            num_queries=30,
            num_denoising=24,
            initializer_range=0.05,
            **_number(_LABELS),
        )
        model = transformers.RTDetrForObjectDetection(config)
        for module in model.modules():
            # Transformers starts these near zero, from which nothing is learnt.
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.ones_(module.weight)
        model.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
        size = {"height": 128, "width": 128}
        return cls(model, transformers.RTDetrImageProcessorPil(size=size))

    def measure_loss(self, samples: Sequence[Sample]) -> torch.Tensor:
        """The model's own: matching, boxes, labels, denoising, all layers."""
        labels = list(map(self._label, samples))
        loss: torch.Tensor = self.model(self.read_pixels(samples), labels=labels).loss
        return loss

    def _label(self, sample: Sample) -> dict[str, torch.Tensor]:
        """Labels, and boxes as centre and extent in shares of the image."""
        found = self.find_truth(sample)
        height, width, _ = sample.picture.shape
        corners = torch.tensor([(b.left, b.top, b.right, b.bottom) for b in found])
        corners = corners / torch.tensor([width, height, width, height])
        low, high = corners[:, :2].clamp(0, 1), corners[:, 2:].clamp(0, 1)
        return {
            "class_labels": torch.tensor([_LABELS.index(box.label) for box in found]),
            "boxes": torch.cat([(low + high) / 2, high - low], dim=1),
        }

    def find_truth(self, sample: Sample) -> list[FigureBox]:
        """The boxes to find, in pixels of the sample's image."""
        height, width, _ = sample.picture.shape
        return boxes(sample.scene, width, height)

    def answer_batch(self, samples: Sequence[Sample]) -> list[list[FoundBox]]:
        """All boxes that the model sees in each image, unlikely ones included."""
        answers = self.processor.post_process_object_detection(
            self.model(self.read_pixels(samples)),
            threshold=0.0,
            target_sizes=[sample.picture.shape[:2] for sample in samples],
        )
        return [
            [
                FoundBox(FigureBox(_LABELS[label], *box), score)
                for label, box, score in zip(
                    *(answer[key].tolist() for key in ("labels", "boxes", "scores")),
                    strict=True,
                )
            ]
            for answer in answers
        ]

    def judge(self, samples: Sequence[Sample]) -> float:
        return statistics.mean(self.measure(samples).values())

    def measure(self, samples: Sequence[Sample]) -> dict[str, float]:
        """AP50 of each label."""
        return measure_ap50(list(map(self.find_truth, samples)), self.answer(samples))

    def export(self, folder: Path) -> None:
        self.model.to(memory_format=torch.contiguous_format)
        super().export(folder)


LEARNERS: Final[dict[ShapesTask, type[Learner]]] = {
    learner.task: learner
    for learner in (CaptioningLearner, ClassificationLearner, DetectionLearner)
}


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
