"""Finds processes, listening ports and temporary files that a folder's tests leave behind."""

import gc
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from deploy.stack import ROOT, Stack

#: The time that a terminated program may need to end.
PATIENCE_S = 10
#: Caches of PyTorch and Matplotlib, and the file that a killed Gunicorn worker may leave.
_KEPT = ("torchinductor_", "matplotlib-", "wgunicorn-")
#: Python's helper processes, which end with the process that they serve.
_HELPERS = ("resource_tracker", "forkserver")


class Traces:
    """The places where a run may leave traces: pytest's folder, and the machine's in it."""

    def __init__(self, base: Path) -> None:
        self.base, self.temporary = base, base / "temporary"
        self.temporary.mkdir()
        #: The files in the repository's run directory before the run.
        self.run = set(ROOT.glob("run/*"))
        #: The ports on which pytest's plugins listen.
        self.ports = set(_list_ports())
        #: The traces reported so far.
        self.told: set[str] = set()

    def find(self) -> list[str]:
        """List the traces that have not been reported yet."""
        ports = [f"port {port}" for port in _list_ports() if port not in self.ports]
        found = [*self._find_processes(), *ports, *self._find_files()]
        return [left for left in found if left not in self.told]

    def _find_processes(self) -> Iterator[str]:
        children = psutil.Process().children(recursive=True)
        strangers = [p for p in psutil.process_iter() if self.is_ours(p)]
        for process in {*children, *strangers}:
            with suppress(psutil.NoSuchProcess):
                command = " ".join(process.cmdline()) or process.name()
                if not any(helper in command for helper in _HELPERS):
                    yield f"process {process.pid}: {command}"

    def is_ours(self, process: psutil.Process) -> bool:
        """Whether a test started it; by its folder too, as nginx overwrites its environment."""
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid():
                is_marked = process.environ().get("TMPDIR") == str(self.temporary)
                return is_marked or Path(process.cwd()).is_relative_to(self.base)
        return False

    def _find_files(self) -> Iterator[str]:
        stacks = [
            Stack(state.parent, Path()) for state in self.base.rglob("stack.json")
        ]
        for path in (
            *self.temporary.iterdir(),
            *(stack.metrics for stack in stacks if stack.metrics.exists()),
            *(set(ROOT.glob("run/*")) - self.run),
        ):
            if not path.name.startswith(_KEPT):
                yield f"file {path}"


def _list_ports() -> Iterator[int]:
    """List the ports that this process listens on; those of other processes end with them."""
    for connection in psutil.Process().net_connections("inet"):
        if connection.status == psutil.CONN_LISTEN:
            yield connection.laddr.port


def name_folder(item: pytest.Item) -> str:
    """Return the folder of a test, such as `tests/e2e`, or `tests` itself."""
    folders = item.path.relative_to(item.config.rootpath).parent.parts
    return "/".join(folders[:2])


_TRACES = pytest.StashKey[Traces]()
#: The fixtures that all tests of a folder share, closed before the check for traces.
SHARED = pytest.StashKey[ExitStack]()


@pytest.fixture(scope="session", autouse=True)
def traces(tmp_path_factory, pytestconfig) -> Iterator[Traces]:
    """Direct the temporary files of the run, and of all that it starts, to one folder."""
    found = Traces(tmp_path_factory.getbasetemp())
    pytestconfig.stash[_TRACES] = found
    # SIGTERM ends a run as Ctrl-C does, so that the programs it started end too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as shared, pytest.MonkeyPatch.context() as patch:
        pytestconfig.stash[SHARED] = shared
        patch.setenv("TMPDIR", str(found.temporary))
        patch.setattr(tempfile, "tempdir", None)
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Iterator[None]:
    """Fail the last test of a folder if its tests have left anything behind."""
    yield
    traces = item.config.stash.get(_TRACES, None)
    folder = name_folder(item)
    if traces and (nextitem is None or name_folder(nextitem) != folder):
        item.config.stash[SHARED].close()
        # An unreferenced app ends its processes when it is collected.
        gc.collect()
        give_up_at = time.monotonic() + PATIENCE_S
        while (left := traces.find()) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        if left:
            traces.told.update(left)
            pytest.fail("\n".join([f"{folder} has left behind:", *left]), pytrace=False)
