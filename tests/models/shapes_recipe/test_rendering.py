"""Pictures and boxes of scenes, and AP50 on cases that can be worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from models.shapes_recipe import rendering, scenes
from models.shapes_recipe.rendering import FigureBox
from models.shapes_recipe.scenes import COLOURS, PERSON, SHAPES, Figure, Scene

BLACK = ((0, 0, 0), (0, 0, 0))
POSE = (0.5, 2.0, 0.3, 0.4)
SIZES = [(640, 360), (360, 640), (300, 300)]


def figure(shape: str) -> Figure:
    return Figure(shape, "red", COLOURS["red"], 0.2, (0.4, 0.6), 0.1, POSE)


@pytest.mark.parametrize("shape", [*SHAPES, PERSON])
@pytest.mark.parametrize("size", SIZES, ids=["wide", "high", "square"])
def test_a_box_is_where_the_pixels_are(shape, size):
    width, height = size
    scene = Scene(BLACK, (figure(shape),))
    ys, xs = np.nonzero(rendering.render(scene, width, height)[..., 0] > 100)
    (box,) = rendering.boxes(scene, width, height)
    assert box.label == shape
    assert (box.left, box.top) == pytest.approx((xs.min(), ys.min()), abs=1.5)
    assert (box.right, box.bottom) == pytest.approx(
        (xs.max() + 1, ys.max() + 1), abs=1.5
    )


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
        width, height = rng.choice(SIZES)
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
