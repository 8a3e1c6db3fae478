"""A batch that does not fit into memory is halved until its parts do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from handlers.engine.errors import DeviceFault, OutOfMemory
from handlers.engine.halving import run_in_halves


def double(items: Sequence[int]) -> list[int]:
    """Has room for a sum of 10."""
    if sum(items) > 10:
        raise OutOfMemory("too much")
    return [2 * item for item in items]


@pytest.mark.parametrize(
    ("items", "answers", "halved"),
    [
        ([], [], 0),
        ([1, 2, 3], [2, 4, 6], 0),
        ([5, 5, 5, 5], [10, 10, 10, 10], 1),
        ([6, 6, 6], [12, 12, 12], 2),
    ],
    ids=["empty", "fits", "halves fit", "single ones fit"],
)
def test_answers_keep_their_order(items: list[int], answers: list[int], halved: int):
    assert run_in_halves(double, items) == (answers, halved)


def test_what_does_not_fit_alone_costs_the_others_nothing():
    (first, lost, last), halved = run_in_halves(double, [1, 11, 2])
    assert (first, last) == (2, 4)
    assert isinstance(lost, OutOfMemory)
    assert halved == 2


def test_another_error_is_not_answered_with_halves():
    def fail(items: Sequence[int]) -> list[int]:
        raise DeviceFault(str(items))

    with pytest.raises(DeviceFault, match=r"\[1, 2\]"):
        run_in_halves(fail, [1, 2])
