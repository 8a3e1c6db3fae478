"""Scenes, the one right caption or label of each, their pictures, boxes and clips; and AP50 on
cases worked out by hand."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from models.shapes_recipe import rendering, samples, scenes
from models.shapes_recipe.rendering import FigureBox
from models.shapes_recipe.samples import ShapesTask, draw_batch, held_out
from models.shapes_recipe.scenes import COLOURS, PERSON, SHAPES, SIZES, Figure, Scene

BLACK = ((0, 0, 0), (0, 0, 0))
RED_RING = Figure("ring", "red", COLOURS["red"], 0.11, (0.2, 0.5))
BLUE_CROSS = Figure("cross", "blue", COLOURS["blue"], 0.2, (0.7, 0.5))


@pytest.mark.parametrize(
    ("ring", "cross", "relation", "is_clear"),
    [
        ((0.2, 0.5), (0.7, 0.6), "left of", True),
        ((0.5, 0.2), (0.6, 0.7), "above", True),
        ((0.2, 0.5), (0.5, 0.8), "left of", False),
    ],
    ids=["beside", "below", "on the diagonal"],
)
def test_a_caption_begins_left_or_above(ring, cross, relation, is_clear):
    one, other = replace(RED_RING, centre=ring), replace(BLUE_CROSS, centre=cross)
    caption = f"a small red ring {relation} a large blue cross"
    for figures in ((one, other), (other, one)):
        scene = Scene(BLACK, figures)
        assert scenes.describe(scene) == caption or not is_clear
        assert scenes.is_clear(scene) is is_clear


def test_random_scenes_are_clear_and_whole_and_noise_does_not_overflow():
    rng = random.Random(0)
    for _ in range(500):
        scene = scenes.draw_scene(rng)
        assert scenes.is_clear(scene)
        colours = (*scene.background, *(figure.paint for figure in scene.figures))
        assert max(map(max, colours)) + scenes.MAX_NOISE <= 255
        for figure in scene.figures:
            least, most = SIZES[scenes.size_of(figure)]
            assert least <= figure.size <= most
            assert all(figure.size < share < 1 - figure.size for share in figure.centre)


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


POSE = (0.5, 2.0, 0.3, 0.4)
SIDES = [(640, 360), (360, 640), (300, 300)]


def figure(shape: str) -> Figure:
    return Figure(shape, "red", COLOURS["red"], 0.2, (0.4, 0.6), 0.1, POSE)


@pytest.mark.parametrize("shape", [*SHAPES, PERSON])
@pytest.mark.parametrize("size", SIDES, ids=["wide", "high", "square"])
def test_a_box_is_where_the_pixels_are(shape, size):
    width, height = size
    scene = Scene(BLACK, (figure(shape),))
    ys, xs = np.nonzero(rendering.render(scene, width, height)[..., 0] > 100)
    (box,) = rendering.boxes(scene, width, height)
    assert box.label == shape
    assert (box.left, box.top) == pytest.approx((xs.min(), ys.min()), abs=1.5)
    corner = (xs.max() + 1, ys.max() + 1)
    assert (box.right, box.bottom) == pytest.approx(corner, abs=1.5)


def test_a_picture_has_its_background_paint_and_noise():
    scene = Scene(((20, 30, 40), (40, 30, 20)), (figure("circle"),), 8, 1)
    picture = rendering.render(scene, 320, 240)
    assert picture.shape == (240, 320, 3)
    assert picture.dtype == np.uint8
    clean = rendering.render(replace(scene, noise=0), 320, 240)
    assert clean[0, 0].tolist() == [20, 30, 40]
    assert clean[-1, 0].tolist() == [40, 30, 20]
    assert clean[144, 128].tolist() == list(COLOURS["red"])
    noise = picture.astype(int) - clean
    assert noise.min() == 0
    assert noise.max() == 8


def test_boxes_of_a_crowd_do_not_meet_and_are_inside():
    rng = random.Random(0)
    for _ in range(200):
        width, height = rng.choice(SIDES)
        scene = scenes.draw_crowd(rng, width / height)
        found = rendering.boxes(scene, width, height)
        assert 1 <= len(found) <= 6
        for number, box in enumerate(found):
            assert 0 <= box.left < box.right <= width
            assert 0 <= box.top < box.bottom <= height
            for other in found[:number]:
                apart_x = box.right <= other.left or other.right <= box.left
                apart_y = box.bottom <= other.top or other.bottom <= box.top
                assert apart_x or apart_y


HERE = FigureBox("ring", 0, 0, 10, 10)
THERE = FigureBox("ring", 50, 50, 60, 60)
FAR = FigureBox("ring", 80, 80, 90, 90)
OTHER = FigureBox("cross", 0, 0, 10, 10)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([], 0.0, id="nothing found"),
        pytest.param([FAR, HERE, THERE], 2 / 3, id="the surest is false"),
        pytest.param([HERE, HERE, THERE], 5 / 6, id="found twice"),
        pytest.param([FigureBox("ring", 6, 0, 16, 10), THERE], 0.25, id="too far"),
        pytest.param([OTHER, THERE], 0.5, id="the wrong label"),
    ],
)
def test_average_precision(found: list[FigureBox], expected: float):
    boxes = [replace(box, score=1 / place) for place, box in enumerate(found, 1)]
    measured = rendering.measure_ap50([[HERE, THERE]], [boxes[::-1]])
    assert measured == {"ring": pytest.approx(expected)}


def test_a_box_counts_only_in_its_own_picture_and_every_label_is_measured():
    truth = [[HERE], [THERE, OTHER]]
    assert rendering.measure_ap50(truth, [[THERE], [HERE]]) == {"cross": 0, "ring": 0}
