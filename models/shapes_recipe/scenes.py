"""Draws random scenes of figures with exactly one right caption, label or set of boxes."""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

Colour = tuple[int, int, int]
Point = tuple[float, float]

FIGURES = yaml.safe_load(Path(__file__).with_name("figures.yaml").read_text("utf-8"))
COLOURS: dict[str, Colour] = {
    name: (red, green, blue) for name, (red, green, blue) in FIGURES["colours"].items()
}
SHAPES = (*FIGURES["shapes"],)
PERSON = "person"
SIZES: dict[str, tuple[float, float]] = FIGURES["sizes"]
#: The direction from one figure to the other is at most this far (in radians) from horizontal
#: or vertical, or neither caption is quite right.
CLEAR_ANGLE = math.atan(1 / 4)
#: The most that noise and jitter add to each channel; no colour may be close to 255.
MAX_NOISE = 16
_JITTER = 12
_GAP = 0.04
_EDGE = 0.02
#: The largest distance between the middle of two figures and that of the picture, per axis.
_DRIFT = 0.08


@dataclass(frozen=True)
class Figure:
    """One shape. Its centre is in shares of width and height, its size (half its extent) a
    share of the shorter side, its tilt in radians."""

    shape: str
    colour: str
    paint: Colour
    size: float
    centre: Point
    tilt: float = 0.0
    #: A person's angles of arms and legs, outwards from straight down.
    pose: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scene:
    """The content of an image. The background fades from the first colour at the top to the
    second at the bottom. `noise` is the most that noise adds to a channel."""

    background: tuple[Colour, Colour]
    figures: tuple[Figure, ...]
    noise: int = 0
    noise_seed: int = 0


def describe(scene: Scene) -> str:
    """The caption: "a small red ring", or two figures, the left or upper one first."""
    if len(scene.figures) == 1:
        return _name(scene.figures[0])
    one, other = scene.figures
    across, down = _way(one, other)
    is_beside = abs(across) > abs(down)
    if (across if is_beside else down) <= 0:
        one, other = other, one
    return f"{_name(one)} {'left of' if is_beside else 'above'} {_name(other)}"


def classify(scene: Scene) -> str:
    """The label of the first figure: "red circle"."""
    return f"{scene.figures[0].colour} {scene.figures[0].shape}"


def is_clear(scene: Scene) -> bool:
    """Whether only one caption is right: the figures are not on a diagonal."""
    if len(scene.figures) == 1:
        return True
    shorter, longer = sorted(map(abs, _way(*scene.figures)))
    return math.atan2(shorter, longer) <= CLEAR_ANGLE + 1e-9


def draw_scene(rng: random.Random) -> Scene:
    """Draw one or two figures, for a caption."""
    if rng.random() < 0.25:
        figure = draw_figure(rng)
        return fill(rng, (replace(figure, centre=draw_place(rng, figure.size)),))
    one, other = draw_figure(rng), draw_figure(rng)
    angle = rng.randrange(4) * math.pi / 2 + rng.uniform(-1, 1) * CLEAR_ANGLE
    distance = draw_distance(rng, one, other)
    middle = draw_middle(rng, distance / 2 + max(one.size, other.size))
    return fill(rng, place_pair(one, other, middle, angle=angle, distance=distance))


def draw_distance(rng: random.Random, one: Figure, other: Figure) -> float:
    """Draw a distance between centres, in shares of the sides, that keeps the figures apart."""
    return one.size + other.size + _GAP + rng.uniform(0, 0.05)


def draw_middle(rng: random.Random, reach: float) -> Point:
    """Draw a point near the image's middle, at least `reach` from each side."""
    room = min(_DRIFT, 0.5 - _EDGE - reach)
    return 0.5 + rng.uniform(-room, room), 0.5 + rng.uniform(-room, room)


def place_pair(
    one: Figure, other: Figure, middle: Point, *, angle: float, distance: float
) -> tuple[Figure, Figure]:
    """Place both figures around `middle`, the second one in the direction of `angle`."""
    x, y = middle
    across, down = math.cos(angle) * distance / 2, math.sin(angle) * distance / 2
    return (
        replace(one, centre=(x - across, y - down)),
        replace(other, centre=(x + across, y + down)),
    )


def draw_single(rng: random.Random, aspect: float) -> Scene:
    """Draw one figure near the middle of an image that is `aspect` times as wide as high."""
    figure = _make_figure(rng, rng.choice(SHAPES), rng.uniform(0.15, 0.28))
    shift_x, shift_y = rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1)
    centre = (0.5 + shift_x / max(aspect, 1), 0.5 + shift_y * min(aspect, 1))
    return fill(rng, (replace(figure, centre=centre),))


def draw_crowd(rng: random.Random, aspect: float) -> Scene:
    """Draw one to six figures, some of them people, whose boxes do not touch at this aspect."""
    wanted = rng.randint(1, 6)
    figures: list[Figure] = []
    for _ in range(wanted * 8):
        if len(figures) == wanted:
            break
        is_person = rng.random() < 0.3
        size = rng.uniform(0.16, 0.3) if is_person else rng.uniform(0.08, 0.2)
        shape = PERSON if is_person else rng.choice(SHAPES)
        figure = _make_figure(rng, shape, size)
        placed = replace(figure, centre=draw_place(rng, size, aspect))
        if all(_are_apart(placed, other, aspect) for other in figures):
            figures.append(placed)
    return fill(rng, tuple(figures))


def fill(rng: random.Random, figures: tuple[Figure, ...]) -> Scene:
    """Put figures on a random dark background, with random noise."""
    grey = rng.uniform(10, 75)
    background = (_tint(rng, grey), _tint(rng, grey + rng.uniform(-10, 10)))
    noise = rng.choice((0, 4, 8, 12, MAX_NOISE))
    return Scene(background, figures, noise, rng.getrandbits(32))


def _tint(rng: random.Random, grey: float) -> Colour:
    red, green, blue = (round(max(0, grey + rng.uniform(-10, 10))) for _ in range(3))
    return red, green, blue


def draw_figure(rng: random.Random) -> Figure:
    """Draw a small or a large figure in the middle."""
    least, most = SIZES[rng.choice(tuple(SIZES))]
    return _make_figure(rng, rng.choice(SHAPES), rng.uniform(least, most))


def _make_figure(rng: random.Random, shape: str, size: float) -> Figure:
    colour = rng.choice(tuple(COLOURS))
    red, green, blue = (
        value + rng.randint(-_JITTER, _JITTER) for value in COLOURS[colour]
    )
    pose: tuple[float, ...] = ()
    if shape == PERSON:
        arms = (rng.uniform(0.3, 2.6), rng.uniform(0.3, 2.6))
        pose = (*arms, rng.uniform(0.1, 0.6), rng.uniform(0.1, 0.6))
    tilt = rng.uniform(-0.15, 0.15)
    return Figure(shape, colour, (red, green, blue), size, (0.5, 0.5), tilt, pose)


def draw_place(rng: random.Random, size: float, aspect: float = 1.0) -> Point:
    """Draw a place where a figure is fully visible at this aspect; with 1, at any aspect."""
    margin_x = size / max(aspect, 1) + _EDGE
    margin_y = size * min(aspect, 1) + _EDGE
    return rng.uniform(margin_x, 1 - margin_x), rng.uniform(margin_y, 1 - margin_y)


def _are_apart(one: Figure, other: Figure, aspect: float) -> bool:
    across, down = _way(one, other)
    room = one.size + other.size + _GAP / 2
    return max(abs(across) * max(aspect, 1), abs(down) / min(aspect, 1)) > room


def _way(one: Figure, other: Figure) -> Point:
    return other.centre[0] - one.centre[0], other.centre[1] - one.centre[1]


def _name(figure: Figure) -> str:
    return f"a {size_of(figure)} {figure.colour} {figure.shape}"


def size_of(figure: Figure) -> str:
    """Return the word for a figure's size: the one with the nearer range."""
    (_, small), (large, _) = (SIZES[word] for word in ("small", "large"))
    return "small" if figure.size < (small + large) / 2 else "large"
