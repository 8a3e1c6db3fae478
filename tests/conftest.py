"""What tests of several rooms need: the distribution's Prometheus. Where CI is set, a test that
is skipped fails the run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.programs import PROMETHEUS, find, install


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What is skipped is listed by `-rs`; here is what it costs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("CI: no test may be skipped.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own checker, installed where it is missing."""
    return (find(PROMETHEUS) or install(PROMETHEUS)).with_name("promtool")
