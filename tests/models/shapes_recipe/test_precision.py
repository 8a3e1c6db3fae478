"""AP50 on cases that can be worked out by hand."""

from __future__ import annotations

import pytest

from models.shapes_recipe.precision import FoundBox, measure_ap50, measure_overlap
from models.shapes_recipe.rendering import FigureBox

HERE = FigureBox("ring", 0, 0, 10, 10)
THERE = FigureBox("ring", 50, 50, 60, 60)
FAR = FigureBox("ring", 80, 80, 90, 90)
OTHER = FigureBox("cross", 0, 0, 10, 10)


def test_overlap_is_intersection_over_union():
    assert measure_overlap(HERE, FigureBox("ring", 5, 0, 15, 10)) == 5 / 15
    assert measure_overlap(HERE, THERE) == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([(HERE, 0.9)], 0.5, id="one missed"),
        pytest.param([], 0.0, id="nothing found"),
        pytest.param(
            [(HERE, 0.9), (THERE, 0.8), (FAR, 0.1)], 1.0, id="the least sure is false"
        ),
        pytest.param(
            [(FAR, 0.9), (HERE, 0.8), (THERE, 0.7)], 2 / 3, id="the surest is false"
        ),
        pytest.param([(HERE, 0.9), (HERE, 0.8), (THERE, 0.7)], 5 / 6, id="found twice"),
        pytest.param(
            [(FigureBox("ring", 6, 0, 16, 10), 0.9), (THERE, 0.8)], 0.25, id="too far"
        ),
        pytest.param([(OTHER, 0.9), (THERE, 0.8)], 0.5, id="the wrong label"),
    ],
)
def test_average_precision(found, expected: float):
    boxes = [FoundBox(*one) for one in found]
    assert measure_ap50([[HERE, THERE]], [boxes])["ring"] == pytest.approx(expected)


def test_a_box_counts_only_in_its_own_picture_and_every_label_is_measured():
    found = [[FoundBox(THERE, 0.9)], [FoundBox(HERE, 0.8)]]
    assert measure_ap50([[HERE], [THERE, OTHER]], found) == {"cross": 0.0, "ring": 0.0}
