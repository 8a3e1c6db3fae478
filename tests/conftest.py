"""What tests of several rooms need: the distribution's Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.programs import PROMETHEUS, find, install


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own checker, installed where it is missing."""
    return (find(PROMETHEUS) or install(PROMETHEUS)).with_name("promtool")
