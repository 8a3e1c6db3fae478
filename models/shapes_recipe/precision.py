"""Measures detection quality: the average precision of each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.shapes_recipe.rendering import FigureBox

_MIN_OVERLAP = 0.5


@dataclass(frozen=True)
class FoundBox:
    """A box that a model found, and how sure it is."""

    box: FigureBox
    score: float


def measure_overlap(one: FigureBox, other: FigureBox) -> float:
    """Intersection over union."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    shared = max(0.0, width) * max(0.0, height)
    return shared / (_area(one) + _area(other) - shared) if shared else 0.0


def measure_ap50(
    truth: Sequence[Sequence[FigureBox]], found: Sequence[Sequence[FoundBox]]
) -> dict[str, float]:
    """Average precision of each label at an overlap of 0.5, interpolated as in VOC."""
    labels = sorted({box.label for boxes in truth for box in boxes})
    return {label: _measure_label(label, truth, found) for label in labels}


def _measure_label(
    label: str,
    truth: Sequence[Sequence[FigureBox]],
    found: Sequence[Sequence[FoundBox]],
) -> float:
    wanted = [[box for box in boxes if box.label == label] for boxes in truth]
    candidates = sorted(
        (
            (detected, picture)
            for picture, detections in enumerate(found)
            for detected in detections
            if detected.box.label == label
        ),
        key=lambda candidate: -candidate[0].score,
    )
    left = [list(boxes) for boxes in wanted]
    hits = np.array(
        [_take(left[picture], detected.box) for detected, picture in candidates], bool
    )
    return _integrate(hits, sum(map(len, wanted)))


def _take(left: list[FigureBox], box: FigureBox) -> bool:
    """Whether the box meets a true one that no surer box has met. That one is then taken."""
    best = max(left, key=lambda other: measure_overlap(box, other), default=None)
    if best is None or measure_overlap(box, best) < _MIN_OVERLAP:
        return False
    left.remove(best)
    return True


def _integrate(hits: np.ndarray[tuple[int], np.dtype[np.bool_]], wanted: int) -> float:
    """The area under precision over recall, with the best precision at that recall or more."""
    if not len(hits):
        return 0.0
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best * hits).sum() / wanted)


def _area(box: FigureBox) -> float:
    return (box.right - box.left) * (box.bottom - box.top)
