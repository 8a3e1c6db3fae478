"""Percentiles, spreads and ratios."""

from __future__ import annotations

import pytest

from benchmarks.figures import (
    Latencies,
    Spread,
    find_ratio,
    percentile,
    show,
    spread,
    summarize_latencies,
)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1), (0.01, 1), (0.5, 50), (0.95, 95), (0.951, 96), (0.99, 99), (1.0, 100)],
)
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int):
    values = list(range(100, 0, -1))
    assert percentile(values, share) == expected


def test_of_few_values_the_99th_percentile_is_the_largest():
    assert percentile([3, 1, 2], 0.99) == 3


def test_no_values_have_no_percentile():
    assert percentile([], 0.5) is None
    assert summarize_latencies([]) == Latencies(None, None, None)


def test_latencies_are_in_milliseconds():
    assert summarize_latencies([0.25]) == Latencies(250, 250, 250, 250, 250)


def test_a_spread_is_median_and_extremes():
    assert spread([3, 1, 2, 10]) == Spread(median=2.5, low=1, high=10)


def test_ratios_are_taken_round_by_round():
    # The machine was half as fast in the second round, for both.
    assert find_ratio([200, 100], [100, 50]) == Spread(2, 2, 2)


def test_rounds_without_a_figure_do_not_count():
    assert find_ratio([4, None, 9], [2, 5, 0]) == Spread(2, 2, 2)
    assert find_ratio([None], [1]) is None


def test_rounds_of_one_side_only_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        find_ratio([1, 2], [1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (0.0, "0.00"),
        (0.1234, "0.12"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (12345.6, "12,346"),
    ],
)
def test_figures_are_shown_with_three_digits(value: float | None, expected: str):
    assert show(value) == expected


def test_a_spread_is_shown_with_its_extremes():
    assert str(Spread(12.34, 1, 150)) == "12.3 (1.00–150)"
