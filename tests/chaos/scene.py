"""The scene of the faults: a stack, and the windows of its disruptions. nginx's answers may be
late by the time that it waited for a core, whatever program used the core."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks.measure import stress
from deploy.stack import Stack
from tests.chaos.load import Exchange
from tests.e2e.real_stack import VICTIMS

T = TypeVar("T")

#: A killed process must be back in these seconds, or multiples of the stack's start time.
BACK_S, _TIMES_START = 30.0, 3
_LOOK_S, _CUT_S = 0.05, 5.0
#: The interval of reading nginx's waits for a core, and the shortest wait that counts.
_WAITS_S, _LEAST_S = 0.1, 0.01
#: Errors of reading a program while it starts.
_UNREADABLE = (psutil.Error, OSError, ValueError, LookupError)


@dataclass(frozen=True)
class Window:
    """A period in which a process was killed or stopped, by the monotonic clock."""

    began: float
    ended: float

    def overlap(self, exchange: Exchange) -> float:
        """Return the seconds that the window shares with a request."""
        began = max(self.began, exchange.began)
        return max(0.0, min(self.ended, exchange.ended) - began)


@dataclass
class Scene:
    stack: Stack
    cache: Path
    #: The seed of the faults.
    seed: int
    #: The time that the stack needed to start.
    start_s: float = 0.0
    #: The requests/s that the stack answers.
    capacity: float = 0.0
    #: Windows in which connections may break, because nginx was killed.
    shut: list[Window] = field(default_factory=list)
    #: Windows in which answers may be cut, because a gateway process writing them was killed.
    cut: list[Window] = field(default_factory=list)
    #: Windows in which answers may be late by as much, because a process on their way stopped.
    frozen: list[Window] = field(default_factory=list)
    #: All requests, except those that check whether the stack is ready.
    exchanges: list[Exchange] = field(default_factory=list)
    #: The answers to the clients that ask during all faults.
    outcomes: Counter[str] = field(default_factory=Counter)
    #: The start of each fault in seconds, its name and its duration.
    schedule: list[str] = field(default_factory=list)
    #: The violations noted during the faults.
    violations: list[str] = field(default_factory=list)
    ready_after_s: float = 0.0
    #: Megabytes by program under the same load, before the faults and after them.
    memory_mb: tuple[dict[str, float], dict[str, float]] = ({}, {})
    #: Files that contain the marker of a text.
    traces: set[str] = field(default_factory=set)

    @property
    def marker(self) -> str:
        """A word that every text contains."""
        return f"zq{self.seed}qz"

    @property
    def back_s(self) -> float:
        """The seconds in which a killed program must be replaced on this machine."""
        return max(BACK_S, _TIMES_START * self.start_s)

    @contextmanager
    def note(self, windows: list[Window]) -> Iterator[None]:
        """Note a window that is as long as the block."""
        began = time.monotonic()
        try:
            yield
        finally:
            windows.append(Window(began, time.monotonic()))

    def note_cut(self) -> None:
        """Note a window from now on: the workers of a killed master are ended soon after it."""
        now = time.monotonic()
        self.cut.append(Window(now, now + _CUT_S))

    def wait(self, what: str, condition: Callable[[], bool]) -> bool:
        """Return whether a condition is met in time, and note a violation if not."""
        give_up_at = time.monotonic() + self.back_s
        while time.monotonic() < give_up_at:
            with suppress(*_UNREADABLE):
                if condition():
                    return True
            time.sleep(_LOOK_S)
        self.violations.append(f"{what}: not within {self.back_s:.0f} s")
        return False

    def find(self, name: str) -> psutil.Process | None:
        """Return a process by its name in VICTIMS, or note a violation and return None."""
        return self.read(name, lambda: VICTIMS[name](self.stack), default=None)

    def read(self, what: str, read: Callable[[], T], default: T) -> T:
        """Read once it is possible; if not in time, note a violation and return the default."""
        found: list[T] = []

        def look() -> bool:
            found.append(read())
            return True

        return found[0] if self.wait(f"no {what}", look) else default


def repeat(look: Callable[[], None], every_s: float) -> AbstractContextManager[None]:
    """Call a function at intervals, in a thread, during the block."""

    def act() -> None:
        with suppress(*_UNREADABLE):
            look()

    return stress.repeat(act, every_s)


@contextmanager
def watch_nginx(scene: Scene) -> Iterator[None]:
    """Note a window for each time that nginx waits for a core."""
    waited: dict[str, float] = {}

    def look() -> None:
        found = _read_waits(scene.stack.find_leader("nginx").pid)
        most = max(found[pid] - waited.get(pid, 0.0) for pid in found)
        now = time.monotonic()
        if waited and most > _LEAST_S:
            scene.frozen.append(Window(now - most, now))
        waited.clear()
        waited.update(found)

    with repeat(look, _WAITS_S):
        yield


def _read_waits(master: int) -> dict[str, float]:
    """Return the seconds that each worker has waited for a core, by the kernel's count."""
    workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return {
        pid: int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        for pid in workers
    }
