"""Draws images like those of clients: scenes in random sizes, some blurred or JPEG-compressed,
and clips of one moving figure or two turning ones, with a known caption for every frame.
"""

import io
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from PIL import Image, ImageFilter

from models.shapes_recipe import scenes
from models.shapes_recipe.rendering import Frame, render
from models.shapes_recipe.scenes import Figure, Point, Scene

_WIDEST = 16 / 9


class ShapesTask(StrEnum):
    """A task that a model can learn from the images."""

    CAPTIONING = "captioning"
    CLASSIFICATION = "classification"
    DETECTION = "detection"


#: The shorter side of a task's pictures, in pixels, and the function that draws its scenes for
#: an aspect: the width divided by the height.
_Draw = Callable[[random.Random, float], Scene]
_PICTURES: dict[ShapesTask, tuple[tuple[int, int], _Draw]] = {
    ShapesTask.CAPTIONING: ((72, 200), lambda rng, _: scenes.draw_scene(rng)),
    ShapesTask.CLASSIFICATION: ((64, 160), scenes.draw_single),
    ShapesTask.DETECTION: ((112, 224), scenes.draw_crowd),
}


@dataclass(frozen=True)
class Sample:
    """An image and its scene."""

    scene: Scene
    picture: Frame


def draw_sample(task: ShapesTask, rng: random.Random) -> Sample:
    """Draw an image of random size, from 9:16 to 16:9; many are 16:9, like films."""
    is_film = rng.random() < 0.4
    aspect = _WIDEST if is_film else _WIDEST ** rng.uniform(-1, 1)
    sides, draw = _PICTURES[task]
    side = rng.randint(*sides)
    width = round(side * max(aspect, 1))
    height = round(side / min(aspect, 1))
    scene = draw(rng, width / height)
    return Sample(scene, _disturb(render(scene, width, height), rng))


def draw_batch(task: ShapesTask, step: int, size: int) -> list[Sample]:
    """Draw the samples of a training step, which are the same in every call."""
    rng = random.Random(f"training {task} {step}")
    return [draw_sample(task, rng) for _ in range(size)]


def held_out(task: ShapesTask, count: int, seed: int = 0) -> Iterator[Sample]:
    """Draw samples that training does not draw."""
    rng = random.Random(f"held out {task} {seed}")
    return (draw_sample(task, rng) for _ in range(count))


def held_out_at(
    task: ShapesTask, count: int, *, width: int, height: int, seed: int = 0
) -> Iterator[Sample]:
    """Draw undisturbed samples of one size that training does not draw."""
    rng = random.Random(f"held out {task} {width}x{height} {seed}")
    _, draw = _PICTURES[task]
    drawn = (draw(rng, width / height) for _ in range(count))
    return (Sample(scene, render(scene, width, height)) for scene in drawn)


def _disturb(picture: Frame, rng: random.Random) -> Frame:
    chance = rng.random()
    if chance < 0.4:
        return picture
    image = Image.fromarray(picture)
    if chance < 0.7:
        image = image.filter(ImageFilter.BoxBlur(rng.uniform(0.3, 1.0)))
    if chance > 0.6:
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=rng.randint(40, 95))
        image = Image.open(stream)
    return np.array(image)


#: The number of frames between cuts, where figures and background change.
SHOT_FRAMES = 90
#: The part of a shot in which two figures change from one relation to the next.
_TURN_SHARE = 0.15
_WOBBLE = 0.9 * scenes.CLEAR_ANGLE

#: A function from a share of the shot to the figures at that time.
_Motion = Callable[[float], tuple[Figure, ...]]


def draw_clip(seed: int, frames: int, *, width: int, height: int) -> Iterator[Sample]:
    """Draw the first frames of a clip; every size shows the same scenes."""
    return (Sample(one, render(one, width, height)) for one in plan_clip(seed, frames))


def plan_clip(seed: int, frames: int) -> Iterator[Scene]:
    """Yield the scenes of a clip, frame by frame."""
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
    return lambda share: (replace(figure, centre=_find_between(start, end, share)),)


def _draw_pair(rng: random.Random) -> _Motion:
    """Draw two figures that turn quickly from one relation to the next, past an unclear one."""
    one, other = scenes.draw_figure(rng), scenes.draw_figure(rng)
    distance = scenes.draw_distance(rng, one, other)
    reach = distance / 2 + max(one.size, other.size)
    start, end = scenes.draw_middle(rng, reach), scenes.draw_middle(rng, reach)
    quarter = rng.randrange(4)
    direction = rng.choice((-1, 1))
    turn_at = rng.uniform(0.3, 0.7)

    def move(share: float) -> tuple[Figure, ...]:
        turned = direction * _ease((share - turn_at) / _TURN_SHARE + 0.5)
        wobble = _WOBBLE * math.sin(2 * math.pi * share)
        angle = (quarter + turned) * math.pi / 2 + wobble
        middle = _find_between(start, end, share)
        return scenes.place_pair(one, other, middle, angle=angle, distance=distance)

    return move


def _find_between(start: Point, end: Point, share: float) -> Point:
    (x, y), (to_x, to_y), way = start, end, _ease(share)
    return x + (to_x - x) * way, y + (to_y - y) * way


def _ease(share: float) -> float:
    """Ease a share from 0 to 1, with a soft start and end."""
    share = min(1.0, max(0.0, share))
    return share * share * (3 - 2 * share)
