"""Images as clients send them: scenes in random sizes, some blurred, some through JPEG."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from PIL import Image, ImageFilter

from models.shapes_recipe import scenes
from models.shapes_recipe.rendering import Frame, render
from models.shapes_recipe.scenes import Scene

_WIDEST = 16 / 9


class ShapesTask(StrEnum):
    """The task that a model can learn from the images."""

    CAPTIONING = "captioning"
    CLASSIFICATION = "classification"
    DETECTION = "detection"


#: The shorter side of a picture, in pixels.
_SIDES = {
    ShapesTask.CAPTIONING: (72, 200),
    ShapesTask.CLASSIFICATION: (64, 160),
    ShapesTask.DETECTION: (112, 224),
}


@dataclass(frozen=True)
class Sample:
    """An image and what it shows."""

    scene: Scene
    picture: Frame


def draw_sample(task: ShapesTask, rng: random.Random) -> Sample:
    """An image of random size, from 9:16 to 16:9; many are 16:9, as films are."""
    is_film = rng.random() < 0.4
    aspect = _WIDEST if is_film else _WIDEST ** rng.uniform(-1, 1)
    side = rng.randint(*_SIDES[task])
    width, height = round(side * max(aspect, 1)), round(side / min(aspect, 1))
    scene = draw_scene(task, rng, width / height)
    return Sample(scene, _disturb(render(scene, width, height), rng))


def draw_scene(task: ShapesTask, rng: random.Random, aspect: float) -> Scene:
    """A scene for the task, in an image that is `aspect` times as wide as high."""
    match task:
        case ShapesTask.CAPTIONING:
            return scenes.draw_scene(rng)
        case ShapesTask.CLASSIFICATION:
            return scenes.draw_single(rng, aspect)
        case ShapesTask.DETECTION:
            return scenes.draw_crowd(rng, aspect)


def draw_batch(task: ShapesTask, step: int, size: int) -> list[Sample]:
    """The samples of a training step; the same for every call."""
    rng = random.Random(f"training {task} {step}")
    return [draw_sample(task, rng) for _ in range(size)]


def held_out(task: ShapesTask, count: int, seed: int = 0) -> Iterator[Sample]:
    """Samples that training does not draw."""
    rng = random.Random(f"held out {task} {seed}")
    return (draw_sample(task, rng) for _ in range(count))


def held_out_at(
    task: ShapesTask, count: int, *, width: int, height: int, seed: int = 0
) -> Iterator[Sample]:
    """Undisturbed samples of one size that training does not draw."""
    rng = random.Random(f"held out {task} {width}x{height} {seed}")
    for _ in range(count):
        scene = draw_scene(task, rng, width / height)
        yield Sample(scene, render(scene, width, height))


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
