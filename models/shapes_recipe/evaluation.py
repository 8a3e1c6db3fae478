"""Evaluates the exported models on held-out images and clips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.shapes_recipe.captioning import CaptioningLearner
from models.shapes_recipe.classification import ClassificationLearner
from models.shapes_recipe.clips import draw_clip
from models.shapes_recipe.detection import DetectionLearner
from models.shapes_recipe.samples import Sample, ShapesTask, held_out, held_out_at
from models.shapes_recipe.scenes import is_clear
from models.shapes_recipe.training import Learner

#: The folder of the models that ship, a directory per task.
SHAPES: Final = Path(__file__).parents[1] / "shapes"

LEARNERS: Final[dict[ShapesTask, type[Learner]]] = {
    learner.task: learner
    for learner in (CaptioningLearner, ClassificationLearner, DetectionLearner)
}


#: Widths and heights of frames that come in unscaled.
FRAME_SIZES = ((480, 270), (1920, 1080))
_CLIP_FRAMES = 901
_CLIP_SEED = 7
_SIZED_ITEMS = 200


@dataclass(frozen=True)
class TaskJudgement:
    """Shares of right answers: on held-out images, undisturbed ones of a size, and others."""

    held_out: float
    by_size: Mapping[tuple[int, int], float]
    by_label: Mapping[str, float]


@dataclass(frozen=True)
class ShapesReport:
    """The figures of the model card."""

    items: int
    captioning: TaskJudgement
    classification: TaskJudgement
    detection: TaskJudgement


def evaluate(folder: Path, items: int) -> ShapesReport:
    """Judges the three models in the folder."""
    captioning = CaptioningLearner.load(folder / ShapesTask.CAPTIONING)
    classification = ClassificationLearner.load(folder / ShapesTask.CLASSIFICATION)
    detection = DetectionLearner.load(folder / ShapesTask.DETECTION)
    return ShapesReport(
        items=items,
        captioning=_judge(captioning, items, judge_clip(captioning)),
        classification=_judge(classification, items, {}),
        detection=_judge(
            detection,
            items,
            detection.measure(list(held_out(ShapesTask.DETECTION, items))),
        ),
    )


def judge_clip(learner: CaptioningLearner) -> dict[str, float]:
    """Exact match on the frames of a clip: all frames, and those whose caption is clear."""
    frames = [
        Sample(scene, frame)
        for scene, frame in draw_clip(_CLIP_SEED, _CLIP_FRAMES, width=480, height=270)
    ]
    clear = [sample for sample in frames if is_clear(sample.scene)]
    return {"all": learner.judge(frames), "clear": learner.judge(clear)}


def _judge(
    learner: Learner, items: int, by_label: Mapping[str, float]
) -> TaskJudgement:
    task = learner.task
    return TaskJudgement(
        held_out=learner.judge(list(held_out(task, items))),
        by_size={
            (width, height): learner.judge(
                list(held_out_at(task, _SIZED_ITEMS, width=width, height=height))
            )
            for width, height in FRAME_SIZES
        },
        by_label=by_label,
    )
