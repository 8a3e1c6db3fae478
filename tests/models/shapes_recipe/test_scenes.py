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
    ("ring", "cross", "caption"),
    [
        ((0.2, 0.5), (0.7, 0.6), "a small red ring left of a large blue cross"),
        ((0.7, 0.5), (0.2, 0.6), "a large blue cross left of a small red ring"),
        ((0.5, 0.2), (0.6, 0.7), "a small red ring above a large blue cross"),
        ((0.5, 0.7), (0.6, 0.2), "a large blue cross above a small red ring"),
    ],
    ids=["left", "right", "above", "below"],
)
@pytest.mark.parametrize("swapped", [False, True], ids=["drawn first", "drawn last"])
def test_a_caption_begins_with_the_left_or_upper_figure(ring, cross, caption, swapped):
    figures = (replace(RED_RING, centre=ring), replace(BLUE_CROSS, centre=cross))
    scene = Scene(BLACK, figures[::-1] if swapped else figures)
    assert scenes.describe(scene) == caption
    assert scenes.is_clear(scene)


@pytest.mark.parametrize(
    ("cross", "is_clear"),
    [((0.5, 0.8), False), ((0.5, 0.56), True), ((0.26, 0.8), True)],
    ids=["on the diagonal", "clearly beside", "clearly below"],
)
def test_figures_on_a_diagonal_are_not_clear(cross, is_clear):
    scene = Scene(BLACK, (RED_RING, replace(BLUE_CROSS, centre=cross)))
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
