"""Looks at a cluster while a run lasts: says what the run waits for, and ends it if the
cluster stays away.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType

from ray_backend.bulk.room import Pool, explain
from ray_backend.dashboard import DashboardError, Machine

#: How long a run waits before that is said.
PATIENCE_S = 10.0
#: How long a cluster may stay away; its machines wait for their head as long.
GONE_S = 600.0
_LOOK_S = 2.0
#: How long the run may take to end itself: Ray waits for a cluster that is away.
_END_S = 15.0
STOPPED = "Stopped, the same command goes on."


@dataclass(frozen=True)
class Sight:
    """What a cluster does for a run."""

    #: Workers that have a machine, and those that wait for one.
    placed: int
    waiting: int
    #: The machines with what is free there.
    free: tuple[Machine, ...]
    #: Whether Ray has ended where the command runs. Another one there does not know the run.
    is_homeless: bool = False


@dataclass
class Patience:
    """What is to be said of what is seen, and when."""

    pool: Pool
    say: Callable[[str], None]
    #: What is wrong: `room`, `cluster` or `home`.
    _trouble: str | None = None
    _since_s: float = 0.0
    _is_said: bool = False

    def judge(self, sight: Sight | DashboardError, now_s: float) -> str | None:
        """Says once what has lasted for too long. Why the run must end, if it must."""
        trouble = _find_trouble(sight)
        if trouble != self._trouble:
            self._trouble, self._since_s, self._is_said = trouble, now_s, False
        lasted_s = now_s - self._since_s
        if trouble == "cluster" and lasted_s >= GONE_S:
            return f"the cluster has been away for {lasted_s:.0f} s: {sight}"
        if trouble == "home":
            return "Ray has ended on this machine; the same command goes on"
        if trouble and lasted_s >= PATIENCE_S and not self._is_said:
            self._is_said = True
            self.say(self._describe(sight))
        return None

    def _describe(self, sight: Sight | DashboardError) -> str:
        if isinstance(sight, DashboardError):
            return f"waiting for the cluster: {sight}"
        wants = explain(self.pool, sight.free)
        return f"waiting for room: other work has taken it. {wants}"


def _find_trouble(sight: Sight | DashboardError) -> str | None:
    if isinstance(sight, DashboardError):
        return "cluster"
    if sight.is_homeless:
        return "home"
    return "room" if sight.waiting and not sight.placed else None


class Watch:
    """Looks while the block lasts, in a thread of its own. `lost` says why the block was
    interrupted, if that was not by Ctrl-C. An interrupted block ends in limited time."""

    def __init__(
        self, look: Callable[[], Sight], pool: Pool, say: Callable[[str], None]
    ) -> None:
        """`look` raises DashboardError if the cluster does not answer."""
        self.lost: str | None = None
        self._look = look
        self._say = say
        self._patience = Patience(pool, say)
        self._has_ended = threading.Event()
        #: Only one of several interruptions ends the process.
        self._is_first = threading.Lock()
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Watch:
        if self._before != signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._stop)
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._has_ended.set()
        signal.signal(signal.SIGINT, self._before)

    def _run(self) -> None:
        while not self._has_ended.wait(_LOOK_S):
            try:
                sight: Sight | DashboardError = self._look()
            except DashboardError as error:
                sight = error
            self.lost = self._patience.judge(sight, time.monotonic())
            if self.lost:
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
                self._end()
                return

    def _stop(self, number: int, frame: FrameType | None) -> None:
        threading.Thread(target=self._end, daemon=True).start()
        raise KeyboardInterrupt

    def _end(self) -> None:
        """Ray may be waiting for the cluster where no signal reaches it."""
        is_late = not self._has_ended.wait(_END_S)
        if is_late and self._is_first.acquire(blocking=False):
            self._say(self.lost or STOPPED)
            os._exit(1 if self.lost else 130)
