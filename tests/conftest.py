"""For tests of all rooms: markers by folder, leaks, Prometheus; with CI set none is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.programs import PROMETHEUS, find, install
from tests.leaks import pytest_runtest_teardown, traces

__all__ = ["pytest_runtest_teardown", "traces"]

# A worker of pytest-xdist has them, and a console that is made on import keeps them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

#: The markers of tests that start a real stack, those that come last first.
STACKS = ("e2e", "chaos")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs a real stack. It comes last, so that no stack runs beside the rest."""
    for item in items:
        if item.path.parent.name in ("cluster", "e2e"):
            item.add_marker(item.path.parent.name)
            item.add_marker("e2e")
    items.sort(key=lambda item: [bool(item.get_closest_marker(m)) for m in STACKS])


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
