"""Renders scenes at any width and height, computes true boxes, and measures detected ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from models.shapes_recipe.scenes import FIGURES, PERSON, Figure, Point, Scene

Frame = NDArray[np.uint8]

#: Masks are drawn larger by this factor and then reduced, for soft edges.
_OVERSAMPLING = 2
_NOISE_TILE = 512
#: Boxes with a smaller overlap do not match.
_MIN_OVERLAP = 0.5


@dataclass(frozen=True)
class FigurePart:
    """A disc around one point, a line with round ends between two, or a filled outline."""

    points: tuple[Point, ...]
    #: A disc's radius, or half of a line's width.
    reach: float = 0.0
    #: The radius of a ring's hole, as a share of the ring's radius.
    hole: float = 0.0


@dataclass(frozen=True)
class FigureBox:
    """A figure's label and the box that it covers, in fractional pixels."""

    label: str
    left: float
    top: float
    right: float
    bottom: float
    #: The confidence of the model that found it.
    score: float = 1.0


def render(scene: Scene, width: int, height: int) -> Frame:
    """Render a scene as an image (height, width, 3)."""
    frame = _paint_background(scene, width, height)
    for figure in scene.figures:
        _paint(frame, figure)
    if scene.noise:
        _add_noise(frame, scene)
    return frame


def boxes(scene: Scene, width: int, height: int) -> list[FigureBox]:
    """One box per figure, in the order of the scene."""
    return [_measure(figure, width, height) for figure in scene.figures]


def _measure(figure: Figure, width: int, height: int) -> FigureBox:
    spans = [
        (x - part.reach, y - part.reach, x + part.reach, y + part.reach)
        for part in place(figure, width, height)
        for x, y in part.points
    ]
    lefts, tops, rights, bottoms = zip(*spans, strict=True)
    return FigureBox(figure.shape, min(lefts), min(tops), max(rights), max(bottoms))


def place(figure: Figure, width: int, height: int) -> list[FigurePart]:
    """The figure's parts, in pixels of an image of this size."""
    scale = figure.size * min(width, height)
    centre = (figure.centre[0] * width, figure.centre[1] * height)
    sine, cosine = math.sin(figure.tilt), math.cos(figure.tilt)

    def put(point: Point) -> Point:
        x, y = point[0] * scale, point[1] * scale
        return centre[0] + x * cosine - y * sine, centre[1] + x * sine + y * cosine

    if figure.shape == PERSON:
        parts = _list_limbs(figure.pose)
    else:
        parts = [FigurePart(**FIGURES["shapes"][figure.shape])]
    return [
        FigurePart(tuple(map(put, part.points)), part.reach * scale, part.hole)
        for part in parts
    ]


def _paint_background(scene: Scene, width: int, height: int) -> Frame:
    top, bottom = (np.array(colour, np.float32) for colour in scene.background)
    share = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    rows = (top + (bottom - top) * share).astype(np.uint8)
    # Many times faster than broadcasting three bytes at a time.
    pixels = bytearray().join(row.tobytes() * width for row in rows)
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def _paint(frame: Frame, figure: Figure) -> None:
    """Blend the figure into the part of the frame that its box covers."""
    height, width, _ = frame.shape
    box = _measure(figure, width, height)
    left, top = max(0, math.floor(box.left)), max(0, math.floor(box.top))
    right, bottom = min(width, math.ceil(box.right)), min(height, math.ceil(box.bottom))
    if right <= left or bottom <= top:
        return
    size = (right - left) * _OVERSAMPLING, (bottom - top) * _OVERSAMPLING
    canvas = Image.new("L", size)
    pen = ImageDraw.Draw(canvas)
    for part in place(figure, width, height):
        _draw(pen, part, (left, top))
    area = Image.fromarray(frame[top:bottom, left:right])
    area.paste(figure.paint, mask=canvas.reduce(_OVERSAMPLING))
    frame[top:bottom, left:right] = np.asarray(area)


def _draw(pen: ImageDraw.ImageDraw, part: FigurePart, corner: Point) -> None:
    left, top = corner
    points = [
        ((x - left) * _OVERSAMPLING, (y - top) * _OVERSAMPLING) for x, y in part.points
    ]
    if len(points) > 2:
        pen.polygon(points, fill=255)
        return
    radius = part.reach * _OVERSAMPLING
    if len(points) == 2:
        pen.line(points, fill=255, width=max(1, round(2 * radius)))
    for x, y in points:
        # Pillow's ellipse includes both corners.
        bounds = (x - radius, y - radius, x + radius - 1, y + radius - 1)
        if part.hole:
            pen.ellipse(bounds, outline=255, width=round(radius * (1 - part.hole)))
        else:
            pen.ellipse(bounds, fill=255)


def _add_noise(frame: Frame, scene: Scene) -> None:
    """Add a random part of a noise tile; no colour is bright enough to overflow."""
    tile = _make_noise(scene.noise)
    height, width, _ = frame.shape
    shift = scene.noise_seed % (_NOISE_TILE * _NOISE_TILE)
    tile = np.roll(tile, divmod(shift, _NOISE_TILE), axis=(0, 1))
    for top in range(0, height, _NOISE_TILE):
        for left in range(0, width, _NOISE_TILE):
            area = frame[top : top + _NOISE_TILE, left : left + _NOISE_TILE]
            area += tile[: area.shape[0], : area.shape[1]]


@cache
def _make_noise(level: int) -> Frame:
    rng = np.random.default_rng(level)
    shape = (_NOISE_TILE, _NOISE_TILE, 3)
    return rng.integers(0, level, shape, dtype=np.uint8, endpoint=True)


def _list_limbs(pose: Sequence[float]) -> list[FigurePart]:
    """A person's head, body, two arms and two legs in the pose; two units high."""
    shoulders = (0.0, -0.42)
    hip = (0.0, 0.25)
    parts = [FigurePart(((0.0, -0.74),), 0.26), FigurePart((shoulders, hip), 0.075)]
    limbs = ((shoulders, 0.6, -1), (shoulders, 0.6, 1), (hip, 0.72, -1), (hip, 0.72, 1))
    for ((x, y), length, side), angle in zip(limbs, pose, strict=True):
        end = (x + length * math.sin(side * angle), y + length * math.cos(angle))
        parts.append(FigurePart(((x, y), end), 0.075))
    return parts


def measure_overlap(one: FigureBox, other: FigureBox) -> float:
    """Return the intersection over union of two boxes."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    shared = max(0.0, width) * max(0.0, height)
    areas = ((b.right - b.left) * (b.bottom - b.top) for b in (one, other))
    return shared / (sum(areas) - shared) if shared else 0.0


def measure_ap50(
    truth: Sequence[Sequence[FigureBox]], found: Sequence[Sequence[FigureBox]]
) -> dict[str, float]:
    """Return each label's average precision at an overlap of 0.5, interpolated as in VOC: the
    area under precision over recall, with the best precision at that recall or more."""
    precisions: dict[str, float] = {}
    for label in sorted({box.label for boxes in truth for box in boxes}):
        left = [[box for box in boxes if box.label == label] for boxes in truth]
        wanted = sum(map(len, left))
        candidates = [
            (box, boxes)
            for boxes, detected in zip(left, found, strict=True)
            for box in detected
            if box.label == label
        ]
        candidates.sort(key=lambda candidate: -candidate[0].score)
        hits = np.array([_take_box(boxes, box) for box, boxes in candidates], bool)
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        best = np.maximum.accumulate(precision[::-1])[::-1]
        precisions[label] = float((best * hits).sum() / wanted)
    return precisions


def _take_box(left: list[FigureBox], box: FigureBox) -> bool:
    """Remove the true box that `box` matches best, and return whether there is one."""
    best = max(left, key=lambda other: measure_overlap(box, other), default=None)
    if best is None or measure_overlap(box, best) < _MIN_OVERLAP:
        return False
    left.remove(best)
    return True
