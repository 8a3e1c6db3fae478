"""Measures detection quality: the average precision of each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.shapes_recipe.rendering import FigureBox

_MIN_OVERLAP = 0.5


class FoundBox(NamedTuple):
    """A box that a model found, and how sure it is."""

    box: FigureBox
    score: float


def measure_overlap(one: FigureBox, other: FigureBox) -> float:
    """Intersection over union."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    shared = max(0.0, width) * max(0.0, height)
    areas = ((b.right - b.left) * (b.bottom - b.top) for b in (one, other))
    return shared / (sum(areas) - shared) if shared else 0.0


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
    """The area under precision over recall, with the best precision at that recall or more."""
    left = [[box for box in boxes if box.label == label] for boxes in truth]
    wanted = sum(map(len, left))
    candidates = [
        (one.score, one.box, picture)
        for picture, detections in enumerate(found)
        for one in detections
        if one.box.label == label
    ]
    if not candidates:
        return 0.0
    candidates.sort(key=lambda candidate: -candidate[0])
    hits = np.array([_take(left[picture], box) for _, box, picture in candidates], bool)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best * hits).sum() / wanted)


def _take(left: list[FigureBox], box: FigureBox) -> bool:
    """Whether the box meets a true one that no surer box has met. That one is then taken."""
    best = max(left, key=lambda other: measure_overlap(box, other), default=None)
    if best is None or measure_overlap(box, best) < _MIN_OVERLAP:
        return False
    left.remove(best)
    return True
