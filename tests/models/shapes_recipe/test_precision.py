"""AP50 on cases that can be worked out by hand."""

from __future__ import annotations

import pytest

from models.shapes_recipe.precision import FoundBox, measure_ap50, measure_overlap
from models.shapes_recipe.rendering import FigureBox

HERE = FigureBox("ring", 0, 0, 10, 10)
THERE = FigureBox("ring", 50, 50, 60, 60)
FAR = FigureBox("ring", 80, 80, 90, 90)


def ap(
    truth: list[list[FigureBox]], found: list[list[tuple[FigureBox, float]]]
) -> float:
    detected = [[FoundBox(box, score) for box, score in boxes] for boxes in found]
    return measure_ap50(truth, detected)["ring"]


def test_overlap_is_intersection_over_union():
    assert measure_overlap(HERE, HERE) == 1
    assert measure_overlap(HERE, THERE) == 0
    assert measure_overlap(HERE, FigureBox("ring", 5, 0, 15, 10)) == pytest.approx(
        1 / 3
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(HERE, 0.9), (THERE, 0.8)], 1.0),
        ([(HERE, 0.9)], 0.5),
        ([], 0.0),
        ([(HERE, 0.9), (THERE, 0.8), (FAR, 0.1)], 1.0),
        ([(FAR, 0.9), (HERE, 0.8), (THERE, 0.7)], 2 / 3),
        ([(HERE, 0.9), (FAR, 0.8), (THERE, 0.7)], (1 + 2 / 3) / 2),
        ([(HERE, 0.9), (HERE, 0.8), (THERE, 0.7)], (1 + 2 / 3) / 2),
        ([(FigureBox("ring", 6, 0, 16, 10), 0.9), (THERE, 0.8)], 0.25),
        ([(FigureBox("cross", 0, 0, 10, 10), 0.9), (THERE, 0.8)], 0.5),
    ],
    ids=[
        "all found",
        "one missed",
        "nothing found",
        "a false one that is least sure costs nothing",
        "a false one that is surest",
        "a false one between",
        "the same found twice",
        "too far off to count",
        "the wrong label",
    ],
)
def test_average_precision(found, expected):
    assert ap([[HERE, THERE]], [found]) == pytest.approx(expected)


def test_a_box_counts_only_in_its_own_picture():
    assert ap([[HERE], [THERE]], [[(THERE, 0.9)], [(HERE, 0.8)]]) == 0


def test_every_label_of_the_truth_is_measured():
    truth = [[HERE, FigureBox("cross", 20, 20, 30, 30)]]
    assert measure_ap50(truth, [[FoundBox(HERE, 0.5)]]) == {"cross": 0.0, "ring": 1.0}
