"""Percentiles, spreads and ratios."""

from __future__ import annotations

import pytest

from benchmarks import report


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1), (0.01, 1), (0.5, 50), (0.95, 95), (0.951, 96), (0.99, 99), (1.0, 100)],
)
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int):
    values = list(range(100, 0, -1))
    assert report.percentile(values, share) == expected


def test_no_values_have_no_percentile():
    assert report.percentile([], 0.5) is None
    assert report.summarize_latencies([]) == report.Latencies(None, None, None)


def test_ratios_are_taken_round_by_round():
    # The machine was half as fast in the second round, for both.
    assert report.find_ratio([200, 100], [100, 50]) == report.Spread(2, 2, 2)


def test_rounds_without_a_figure_do_not_count():
    assert report.find_ratio([4, None, 9], [2, 5, 0]) == report.Spread(2, 2, 2)
    assert report.find_ratio([None], [1]) is None


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
    assert report.show(value) == expected
