"""Scenes: what is drawn at random, and the one caption or label that is right for it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from models.shapes_recipe import scenes
from models.shapes_recipe.scenes import COLOURS, SIZES, Figure, Scene

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
def test_a_caption_begins_with_the_left_or_upper_figure(
    ring, cross, relation, is_clear
):
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
