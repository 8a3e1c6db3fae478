"""Clips in which every frame has a known caption: one figure moves, or two turn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from models.shapes_recipe import scenes
from models.shapes_recipe.rendering import Frame, render
from models.shapes_recipe.scenes import Figure, Point, Scene

#: Figures and background change as at a film's cut.
SHOT_FRAMES = 90
#: The part of a shot in which two figures change from one relation to the next.
_TURN_SHARE = 0.15
_WOBBLE = 0.9 * scenes.CLEAR_ANGLE

#: The figures at a share of the shot.
_Motion = Callable[[float], tuple[Figure, ...]]


def draw_clip(
    seed: int, frames: int, *, width: int, height: int
) -> Iterator[tuple[Scene, Frame]]:
    """The first frames, each with its caption; every size shows the same scenes."""
    return ((scene, render(scene, width, height)) for scene in plan_clip(seed, frames))


def plan_clip(seed: int, frames: int) -> Iterator[Scene]:
    """The scenes of the clip, frame by frame."""
    for first in range(0, frames, SHOT_FRAMES):
        rng = random.Random(f"clip {seed} {first}")
        move = _draw_wanderer(rng) if rng.random() < 0.2 else _draw_pair(rng)
        shot = scenes.fill(rng, ())
        for number in range(min(SHOT_FRAMES, frames - first)):
            figures = move(number / SHOT_FRAMES)
            yield replace(shot, figures=figures, noise_seed=rng.getrandbits(32))


def _draw_wanderer(rng: random.Random) -> _Motion:
    figure = scenes.draw_figure(rng)
    start, end = (scenes.draw_place(rng, figure.size) for _ in range(2))

    def move(share: float) -> tuple[Figure, ...]:
        return (replace(figure, centre=_between(start, end, _ease(share))),)

    return move


def _draw_pair(rng: random.Random) -> _Motion:
    """Two figures near one relation that turn quickly to the next, past a doubtful diagonal."""
    one, other = scenes.draw_figure(rng), scenes.draw_figure(rng)
    distance = scenes.draw_distance(rng, one, other)
    reach = distance / 2 + max(one.size, other.size)
    start, end = scenes.draw_middle(rng, reach), scenes.draw_middle(rng, reach)
    quarter, direction = rng.randrange(4), rng.choice((-1, 1))
    turn_at = rng.uniform(0.3, 0.7)

    def move(share: float) -> tuple[Figure, ...]:
        turned = direction * _ease((share - turn_at) / _TURN_SHARE + 0.5)
        wobble = _WOBBLE * math.sin(2 * math.pi * share)
        angle = (quarter + turned) * math.pi / 2 + wobble
        middle = _between(start, end, _ease(share))
        return scenes.place_pair(one, other, middle, scenes.turn(angle, distance))

    return move


def _between(start: Point, end: Point, share: float) -> Point:
    (x, y), (to_x, to_y) = start, end
    return x + (to_x - x) * share, y + (to_y - y) * share


def _ease(share: float) -> float:
    """From 0 to 1 with a soft start and a soft end."""
    share = min(1.0, max(0.0, share))
    return share * share * (3 - 2 * share)
