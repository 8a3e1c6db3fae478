"""The highest level that passes, and how many combinations come further."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tune.search import find_highest, plan_rungs, shuffle


@given(st.integers(1, 20), st.integers(0, 20), st.none() | st.integers(0, 19))
def test_the_highest_level_that_passes_is_found(
    levels: int, passing: int, start: int | None
):
    asked: list[int] = []

    def passes(level: int) -> bool:
        asked.append(level)
        return level < passing

    start = None if start is None else min(start, levels - 1)
    found = find_highest(levels, passes, start)
    assert found == (min(levels, passing) - 1 if passing else None)
    assert len(asked) == len(set(asked))


def test_from_the_likely_level_only_its_neighbour_is_asked():
    asked: list[int] = []

    def passes(level: int) -> bool:
        asked.append(level)
        return level <= 5

    assert find_highest(10, passes, start=5) == 5
    assert asked == [5, 6]


@pytest.mark.parametrize(
    ("combinations", "rungs"),
    [(1, [1]), (3, [3]), (4, [4, 2]), (20, [20, 7, 3])],
)
def test_a_third_comes_to_the_next_rung(combinations: int, rungs: list[int]):
    assert plan_rungs(combinations) == rungs


def test_a_grid_has_one_rung():
    assert plan_rungs(20, is_grid=True) == [20]


def test_the_first_stays_the_first_and_the_order_is_always_the_same():
    order = shuffle(range(20))
    assert order[0] == 0
    assert sorted(order) == list(range(20))
    assert order == shuffle(range(20)) != list(range(20))
