"""The learner of each task."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from models.shapes_recipe.captioning import CaptioningLearner
from models.shapes_recipe.classification import ClassificationLearner
from models.shapes_recipe.detection import DetectionLearner
from models.shapes_recipe.samples import ShapesTask
from models.shapes_recipe.training import Learner

#: Where the models that ship are, a directory per task.
SHAPES: Final = Path(__file__).parents[1] / "shapes"

LEARNERS: Final[dict[ShapesTask, type[Learner]]] = {
    learner.task: learner
    for learner in (CaptioningLearner, ClassificationLearner, DetectionLearner)
}
