"""The models that ship, on a few held-out pictures: as good as their card says."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from models.shapes_recipe.clips import plan_clip
from models.shapes_recipe.evaluation import LEARNERS, SHAPES
from models.shapes_recipe.rendering import render
from models.shapes_recipe.samples import Sample, ShapesTask, held_out, held_out_at
from models.shapes_recipe.scenes import describe, is_clear

pytestmark = pytest.mark.slow

#: Each model's least score, on the card's many pictures and on these few.
LEAST = {
    ShapesTask.CAPTIONING: 0.9,
    ShapesTask.CLASSIFICATION: 0.98,
    ShapesTask.DETECTION: 0.9,
}


@pytest.fixture(scope="module")
def learners():
    return {task: LEARNERS[task].load(SHAPES / task) for task in ShapesTask}


@pytest.mark.parametrize("task", ShapesTask)
def test_held_out_pictures_are_answered_rightly(learners, task):
    samples = list(held_out(task, 40, seed=2))
    assert learners[task].judge(samples) >= LEAST[task]


@pytest.mark.parametrize("task", ShapesTask)
def test_large_frames_are_answered_rightly(learners, task):
    samples = list(held_out_at(task, 15, width=1920, height=1080, seed=2))
    assert learners[task].judge(samples) >= LEAST[task]


def test_the_frames_of_a_clip_are_captioned_rightly(learners):
    plan = [scene for scene in list(plan_clip(1, 450))[::15] if is_clear(scene)]
    samples = [Sample(scene, render(scene, 320, 180)) for scene in plan]
    assert len(samples) > 25
    assert (
        learners[ShapesTask.CAPTIONING].judge(samples) >= LEAST[ShapesTask.CAPTIONING]
    )


def test_a_caption_is_the_same_alone_and_in_a_batch(learners):
    learner = learners[ShapesTask.CAPTIONING]
    samples = list(held_out(ShapesTask.CAPTIONING, 6, seed=3))
    together = learner.caption(samples)
    assert together == [learner.caption([sample])[0] for sample in samples]
    assert len(set(map(len, together))) > 1


def test_a_frame_that_the_client_scaled_is_captioned_as_the_whole_one(learners):
    learner = learners[ShapesTask.CAPTIONING]
    whole = list(held_out_at(ShapesTask.CAPTIONING, 10, width=1280, height=720, seed=4))
    scaled = [
        Sample(
            sample.scene, np.asarray(Image.fromarray(sample.picture).resize((64, 64)))
        )
        for sample in whole
    ]
    expected = [describe(sample.scene) for sample in whole]
    right = sum(
        one == other == caption
        for one, other, caption in zip(
            learner.caption(whole), learner.caption(scaled), expected, strict=True
        )
    )
    assert right >= 9


def test_the_models_are_small_enough_to_ship():
    files = [path for path in SHAPES.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 25e6
