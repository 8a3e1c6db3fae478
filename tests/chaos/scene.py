"""The scene of the faults: a stack, and its times out of order. nginx's answers may be as
late as it wanted a core and had none, whatever program took the core.
"""

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

#: How soon whatever was killed has to be there again: in seconds, or in times what the stack
#: needed to start where that is longer.
BACK_S, _TIMES_START = 30.0, 3
_LOOK_S, _CUT_S = 0.05, 5.0
#: Between two looks at nginx's waits for a core, and the shortest that counts.
_WAITS_S, _LEAST_S = 0.1, 0.01
#: A program that is being started cannot be read at every moment.
_UNREADABLE = (psutil.Error, OSError, ValueError, LookupError, StopIteration)


@dataclass(frozen=True)
class Window:
    """A time in which something was killed or stopped, by the monotonic clock."""

    began: float
    ended: float

    def overlap(self, exchange: Exchange) -> float:
        """Seconds that it shares with a request."""
        began = max(self.began, exchange.began)
        return max(0.0, min(self.ended, exchange.ended) - began)


@dataclass
class Scene:
    stack: Stack
    cache: Path
    #: It draws the faults.
    seed: int
    #: The time that the stack needed to start.
    start_s: float = 0.0
    #: Requests/s that it answers.
    capacity: float = 0.0
    #: In which connections may break: nginx itself was killed.
    shut: list[Window] = field(default_factory=list)
    #: In which answers may end in the middle: a gateway process was killed that wrote them.
    cut: list[Window] = field(default_factory=list)
    #: In which answers may be late by as much: a process in their way was stopped.
    frozen: list[Window] = field(default_factory=list)
    #: The requests of all but those who look whether the stack is ready.
    exchanges: list[Exchange] = field(default_factory=list)
    #: Answers to the clients who asked all the time.
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Seconds since the first fault, and its name.
    schedule: list[str] = field(default_factory=list)
    #: The violations that the faults saw.
    violations: list[str] = field(default_factory=list)
    ready_after_s: float = 0.0
    #: Megabytes by program under the same load, before the faults and after them.
    memory_mb: tuple[dict[str, float], dict[str, float]] = ({}, {})
    #: Files that hold a word of a text.
    traces: set[str] = field(default_factory=set)

    @property
    def marker(self) -> str:
        """A word of every text."""
        return f"zq{self.seed}qz"

    @property
    def back_s(self) -> float:
        """The seconds after which a killed program has to be there again, on this machine."""
        return max(BACK_S, _TIMES_START * self.start_s)

    @contextmanager
    def note(self, windows: list[Window]) -> Iterator[None]:
        """A window for as long as the block lasts."""
        began = time.monotonic()
        try:
            yield
        finally:
            windows.append(Window(began, time.monotonic()))

    def note_cut(self) -> None:
        """A window from now on: what a killed master has left running is ended soon after."""
        now = time.monotonic()
        self.cut.append(Window(now, now + _CUT_S))

    def wait(self, what: str, condition: Callable[[], bool]) -> bool:
        """Whether a condition comes in time; a violation where it does not."""
        give_up_at = time.monotonic() + self.back_s
        while not _holds(condition):
            if time.monotonic() > give_up_at:
                self.violations.append(f"{what}: not within {self.back_s:.0f} s")
                return False
            time.sleep(_LOOK_S)
        return True

    def find(self, name: str) -> psutil.Process | None:
        """A process by its name in VICTIMS; None, and a violation, where it does not come."""
        return self.read(name, lambda: VICTIMS[name](self.stack), default=None)

    def read(self, what: str, read: Callable[[], T], default: T) -> T:
        """Read as soon as it is possible. Returns the default, and notes a violation, where
        it is not."""
        found: list[T] = []

        def look() -> bool:
            found.append(read())
            return True

        return found[0] if self.wait(f"no {what}", look) else default


def _holds(condition: Callable[[], bool]) -> bool:
    with suppress(*_UNREADABLE):
        return condition()
    return False


def repeat(look: Callable[[], None], every_s: float) -> AbstractContextManager[None]:
    """Looks now and then, in a thread, during the block."""

    def act() -> None:
        with suppress(*_UNREADABLE):
            look()

    return stress.repeat(act, every_s)


@contextmanager
def watch_nginx(scene: Scene) -> Iterator[None]:
    """Note a window of each wait of nginx for a core that is as long as the wait."""
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
    """Seconds that each worker of a process has waited for a core, by the kernel's count."""
    workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return {
        pid: int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        for pid in workers
    }
