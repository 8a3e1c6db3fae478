"""Pictures and boxes of scenes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from models.shapes_recipe import rendering, scenes
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
