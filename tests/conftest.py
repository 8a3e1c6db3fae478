"""Fixtures and rules of all tests: markers, Hypothesis profiles, order of files, reports."""

import gc
import os
from collections import defaultdict
from errno import ENOSPC
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from deploy.programs import PROMETHEUS, find, install
from tests.leaks import pytest_runtest_teardown, traces

__all__ = ["pytest_runtest_teardown", "traces"]

# These are set in a worker of pytest-xdist, and a console made on import would keep them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

#: The markers of the folders whose tests start processes of a real stack.
FOLDERS = {"e2e": ("e2e",), "chaos": ("e2e", "faults"), "cluster": ("e2e", "faults")}
#: Files whose tests share the stack with all tasks.
ALL_TASKS = "e2e/test_admission e2e/test_readme e2e/test_vision".split()
#: Files that share a stack or the parsed source: one worker runs each group.
TOGETHER = {
    **dict.fromkeys(ALL_TASKS, "the stack with all tasks"),
    **dict.fromkeys(("test_docs", "test_extras", "test_prose"), "the parsed source"),
}
#: The slowest folders first, and in each its slowest files, so that short files fill the end of
#: a run. A worker runs a folder in one go, because shared fixtures end with it.
SLOW = [
    *ALL_TASKS,
    *"""e2e/test_openapi e2e/test_page e2e/test_bulk_on_ray e2e/test_image e2e/test_gateways
    e2e/test_real_size e2e/test_ray e2e/test_restarts e2e/test_tuning
    e2e/test_hostile_bodies e2e/test_faults e2e/test_foreign_clients e2e/test_document_jobs
    e2e/test_several_models e2e/test_bulk e2e/test_reverse_proxy e2e/test_embedded
    cluster/test_cluster cluster/test_bulk chaos/test_chaos page/test_accessibility
    page/test_whole page/test_text page/test_documents page/test_glossaries
    durability/test_durability gateway/access/test_stalls gateway/access/test_exactness
    fuzz/test_fuzz documents/test_jobs deploy/test_supervision""".split(),
]
SLOWEST_FILES = 10
_CPU_TIMES = pytest.StashKey[tuple[float, float]]()

# Examples have no deadline, since a machine may be busy, and failures must be reproducible.
settings.register_profile(
    "quick",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=100)
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_CPU_TIMES] = _measure_cpu_times()
    # By default Python collects garbage after 700 new objects, which costs a fifth of the CPU.
    gc.set_threshold(50_000)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to workers; each group of TOGETHER, and all browser tests, go to one."""
    if config.getvalue("dist") != "loadfile":
        return None
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = _name_unit
    return scheduling


def _name_unit(nodeid: str) -> str:
    file = _name_file(nodeid)
    return "the browser" if file.startswith("page/") else TOGETHER.get(file, file)


def _name_file(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and put the slow files first."""
    places = {file: place for place, file in enumerate(SLOW)}
    folders = {file.partition("/")[0]: places[file] for file in reversed(SLOW)}

    def find_place(item: pytest.Item) -> tuple[int, int]:
        file = _name_file(item.nodeid)
        folder = file.partition("/")[0]
        return folders.get(folder, len(SLOW)), places.get(file, len(SLOW))

    items.sort(key=find_place)
    for item in items:
        for marker in FOLDERS.get(item.path.parent.name, ()):
            item.add_marker(marker)


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection: they live as long as the run."""
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report the slowest files, the load of the cores and the number of stacks."""
    took_s: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took_s[report.nodeid.partition("::")[0]] += report.duration
    if not took_s:
        return
    terminalreporter.section(f"slowest {SLOWEST_FILES} files")
    slowest = sorted(took_s.items(), key=itemgetter(1), reverse=True)
    for file, duration_s in slowest[:SLOWEST_FILES]:
        terminalreporter.write_line(f"{duration_s:7.1f} s {file}")
    busy_s, all_s = _measure_cpu_times()
    busy_before_s, all_before_s = config.stash[_CPU_TIMES]
    share = (busy_s - busy_before_s) / (all_s - all_before_s)
    terminalreporter.write_line(f"The cores worked {share:.0%} of the time.")
    if started := _count_stacks(config):
        terminalreporter.write_line(f"Stacks were started {started} times.")


def _count_stacks(config: pytest.Config) -> int:
    """Count the starts of supervisord in the folders of all workers."""
    folder: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    logs = (path.read_text("utf-8") for path in folder.rglob("logs/supervisord.log"))
    return sum(log.count("supervisord started with pid") for log in logs)


def _measure_cpu_times() -> tuple[float, float]:
    """Return the seconds that this machine's cores were busy, and their total seconds."""
    times = psutil.cpu_times()
    # Linux counts guest time as user time too.
    all_s = sum(times) - times.guest - times.guest_nice
    return all_s - times.idle - times.iowait, all_s


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with skipped tests if `CI` is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("CI: no test may be skipped.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own checker, installed if it is missing."""
    return (find(PROMETHEUS) or install(PROMETHEUS)[0]).with_name("promtool")


@pytest.fixture
def full_disk() -> Mock:
    """A function that fails like a write to a full disk."""
    return Mock(side_effect=OSError(ENOSPC, "No space left on device"))
