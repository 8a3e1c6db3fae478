"""Samples and clips: the same each time, smooth motion, known captions at any size."""

from __future__ import annotations

import math

import numpy as np

from models.shapes_recipe import samples, scenes
from models.shapes_recipe.samples import ShapesTask, draw_batch, held_out


def test_what_is_left_of_becomes_above_within_a_shot():
    turns = set()
    for seed in range(8):
        shot = list(samples.plan_clip(seed, samples.SHOT_FRAMES))
        first, last = scenes.describe(shot[0]), scenes.describe(shot[-1])
        turns.add((" above " in first, " above " in last, " left of " in last))
    assert turns >= {(True, False, True), (False, True, False)}


def test_figures_move_smoothly_and_stay_whole():
    plan = list(samples.plan_clip(1, 5 * samples.SHOT_FRAMES))
    for number, (before, after) in enumerate(zip(plan, plan[1:], strict=False), 1):
        for one, same in zip(before.figures, after.figures, strict=False):
            assert all(same.size < share < 1 - same.size for share in same.centre)
            is_cut = number % samples.SHOT_FRAMES == 0
            assert is_cut or math.dist(one.centre, same.centre) < 0.06


def test_held_out_pictures_are_the_same_each_time_and_not_those_of_training():
    one, same = (list(held_out(ShapesTask.DETECTION, 5)) for _ in range(2))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a.picture, b.picture)
    batches = [draw_batch(ShapesTask.DETECTION, step, 5) for step in range(20)]
    trained = [[sample.scene for sample in batch] for batch in batches]
    assert not any(sample.scene in batch for sample in one for batch in trained)
    again = [sample.scene for sample in draw_batch(ShapesTask.DETECTION, 3, 5)]
    assert again == trained[3]
