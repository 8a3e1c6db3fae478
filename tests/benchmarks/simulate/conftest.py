"""Scenarios for the tests of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.simulate.scenario import Scenario

Make = Callable[..., Scenario]


@pytest.fixture
def make() -> Make:
    """Makes a scenario of one replica that takes 10 ms for each row, row by row, and whose
    parts are replaced by what is given."""

    def make(**parts: Any) -> Scenario:
        replica = {
            "service": {"fixed_ms": 10, "row_ms": 0},
            "batch_size": 1,
            "max_batch_delay": 0,
            "queue_size": 100_000,
            **parts.pop("replica", {}),
        }
        stretch = {"seconds": 20, "settle_s": 2}
        return Scenario.model_validate(
            {"replica": replica, "stretch": stretch, **parts}
        )

    return make
