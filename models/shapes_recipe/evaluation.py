"""Evaluates the exported models on held-out images and clips, and writes their card,
`models/shapes/README.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from models.shapes_recipe.learners import (
    LEARNERS,
    CaptioningLearner,
    DetectionLearner,
    Learner,
)
from models.shapes_recipe.samples import (
    Sample,
    ShapesTask,
    draw_clip,
    held_out,
    held_out_at,
)
from models.shapes_recipe.scenes import CLEAR_ANGLE, COLOURS, SHAPES, SIZES, is_clear
from models.training import read_facts

#: The folder of the models that ship, a directory per task.
SHIPPED: Final = Path(__file__).parents[1] / "shapes"
#: Widths and heights of frames that come in unscaled.
_FRAME_SIZES = ((480, 270), (1920, 1080))
_CLIP_FRAMES = 901
_CLIP_SEED = 7
_SIZED_ITEMS = 200
_CARD = Path(__file__).with_name("card.txt").read_text("utf-8")


@dataclass(frozen=True)
class TaskJudgement:
    """Shares of right answers: on held-out images, undisturbed ones of a size, and others."""

    held_out: float
    by_size: Mapping[tuple[int, int], float]
    by_label: Mapping[str, float]


def evaluate(folder: Path, items: int) -> dict[ShapesTask, TaskJudgement]:
    """Judges the three models in the folder."""
    return {
        task: _judge(learner.load(folder / task), items)
        for task, learner in LEARNERS.items()
    }


def _judge(learner: Learner, items: int) -> TaskJudgement:
    samples = list(held_out(learner.task, items))
    by_label: Mapping[str, float] = {}
    if isinstance(learner, CaptioningLearner):
        by_label = _judge_clip(learner)
    elif isinstance(learner, DetectionLearner):
        by_label = learner.measure(samples)
    by_size = {
        (width, height): learner.judge(
            list(held_out_at(learner.task, _SIZED_ITEMS, width=width, height=height))
        )
        for width, height in _FRAME_SIZES
    }
    return TaskJudgement(learner.judge(samples), by_size, by_label)


def _judge_clip(learner: CaptioningLearner) -> dict[str, float]:
    """Exact match on the frames of a clip: all frames, and those whose caption is clear."""
    clip = draw_clip(_CLIP_SEED, _CLIP_FRAMES, width=480, height=270)
    frames = [Sample(scene, frame) for scene, frame in clip]
    clear = [sample for sample in frames if is_clear(sample.scene)]
    return {"all": learner.judge(frames), "clear": learner.judge(clear)}


def write_card(folder: Path, items: int, machine: str) -> dict[ShapesTask, float]:
    """Evaluate the models in the folder and write their card there. Return their shares of
    right answers."""
    judged = evaluate(folder, items)
    facts = [read_facts(folder / task) for task in ShapesTask]
    clip = judged[ShapesTask.CAPTIONING].by_label
    by_label = judged[ShapesTask.DETECTION].by_label

    def row(form: str, cells: Iterable[Any]) -> str:
        return " | ".join(map(form.format, cells))

    def name_span(word: str) -> str:
        """The share of the picture that figures of that size measure across."""
        return "{:.0f} to {:.0f} %".format(*(200 * share for share in SIZES[word]))

    text = _CARD.format(
        shapes=", ".join(SHAPES),
        colours=", ".join(COLOURS),
        notes="\n".join(fact["note"] for fact in facts if "note" in fact),
        small=name_span("small"),
        large=name_span("large"),
        clear=math.degrees(CLEAR_ANGLE),
        labels=len(COLOURS) * len(SHAPES),
        parameters=row("{:.2f} M", (fact["parameters"] / 1e6 for fact in facts)),
        megabytes=row("{:.1f} MB", (fact["megabytes"] for fact in facts)),
        batches=row("{0[steps]:,} of {0[batch_size]}", facts),
        minutes=row("{0[cpu_minutes]:.0f} minutes", facts),
        machine=machine,
        items=items,
        sizes=row("{0[0]} x {0[1]}", _FRAME_SIZES),
        rules="---|" * len(_FRAME_SIZES),
        clip_all=clip["all"],
        clip_clear=clip["clear"],
        by_label=", ".join(f"{label} {share:.1%}" for label, share in by_label.items()),
        **{
            task.value: row("{:.1%}", (one.held_out, *one.by_size.values()))
            for task, one in judged.items()
        },
    )
    (folder / "README.md").write_text(text, "utf-8")
    return {task: one.held_out for task, one in judged.items()}
