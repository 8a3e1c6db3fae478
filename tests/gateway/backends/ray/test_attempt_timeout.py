"""How long an attempt may take, by what a model's answers have taken."""

from __future__ import annotations

import pytest

from gateway.backends.ray.attempt_timeout import AttemptTimeout


def teach(*answers: tuple[float, int]) -> AttemptTimeout:
    """After these answers: seconds, and how often."""
    patience = AttemptTimeout()
    for seconds, count in answers:
        for _ in range(count):
            patience.learn(seconds)
    return patience


@pytest.mark.parametrize(
    ("answers", "remaining_s", "limit_s"),
    [
        pytest.param([], 30, 15, id="of a new model nothing is known"),
        pytest.param([(0.5, 50)], 30, 15, id="a quick model"),
        pytest.param([(0.5, 50)], 0.8, 0.8, id="a quick model with little time"),
        pytest.param([(20, 50)], 30, 30, id="a slow model"),
        pytest.param([(20, 50)], 60, 30, id="a slow model with much time"),
        pytest.param([(15, 1)], 30, 30, id="one that was slow at first"),
        pytest.param([(0.5, 50), (15, 1)], 30, 15, id="one silence is no slowness"),
        pytest.param([(0.5, 50), (15, 8)], 30, 30, id="many silences are"),
        pytest.param([(15, 8), (0.5, 100)], 30, 15, id="one that is quick again"),
        pytest.param([(5, 20), (12, 20)] * 3, 30, 30, id="one that varies"),
    ],
)
def test_an_attempt_gets_half_of_the_time_unless_the_model_usually_needs_more(
    answers, remaining_s, limit_s
):
    assert teach(*answers).limit(remaining_s) == limit_s
