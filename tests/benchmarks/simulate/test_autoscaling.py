"""Replicas are added and removed as Serve does it."""

from __future__ import annotations

import pytest

from benchmarks.simulate.autoscaling import Decision, Wish, decide
from benchmarks.simulate.scenario import AutoscalingEntry

ENTRY = AutoscalingEntry(upscale_delay_s=30, downscale_delay_s=600)
UP, DOWN = Wish(is_up=True, since_s=70), Wish(is_up=False, since_s=70)


@pytest.mark.parametrize(
    ("last", "now_s", "wanted", "expected"),
    [
        pytest.param(Decision(2), 100, 2.0, Decision(2), id="as it is"),
        pytest.param(
            Decision(2), 100, 2.1, Decision(2, Wish(True, 100)), id="more: a wish"
        ),
        pytest.param(Decision(2, UP), 99, 2.1, Decision(2, UP), id="not yet"),
        pytest.param(Decision(2, UP), 100, 4.5, Decision(5), id="more"),
        pytest.param(Decision(2, UP), 100, 99, Decision(8), id="not beyond the most"),
        pytest.param(Decision(2, UP), 100, 2.0, Decision(2), id="given up"),
        pytest.param(
            Decision(2, UP), 100, 0.5, Decision(2, Wish(False, 100)), id="the other way"
        ),
        pytest.param(
            Decision(2, DOWN), 669, 0.5, Decision(2, DOWN), id="fewer, not yet"
        ),
        pytest.param(Decision(2, DOWN), 670, 0, Decision(1), id="fewer, but one"),
    ],
)
def test_a_wish_counts_after_its_delay(
    last: Decision, now_s: float, wanted: float, expected: Decision
):
    found = decide(ENTRY, last, now_s=now_s, wanted=wanted, bounds=(1, 8))
    assert found == expected
