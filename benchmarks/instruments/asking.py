"""Clients that ask a server all the time while something happens to it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.instruments.generator import Generator, LoadReply, Manner, Target

CLIENTS = 16
#: Before a client's next request. Without it the clients alone would fill the cores, and
#: what fails would fail for that.
_PAUSE_S = 0.05
_JOIN_S = 60.0


@dataclass(frozen=True)
class Asked:
    """The answers that the clients got, complete once they have stopped."""

    replies: list[LoadReply] = field(default_factory=list)

    @property
    def failed(self) -> Mapping[str, int]:
        """How many were not answered with 200, by what they got."""
        return Counter(one.status for one in self.replies if not one.is_good)

    @property
    def slowest_s(self) -> float:
        return max((one.latency_s - one.lag_s for one in self.replies), default=0.0)


@contextmanager
def keep_asking(
    target: Target, manner: Manner, *, clients: int = CLIENTS
) -> Iterator[Asked]:
    """`clients` of them ask during the block, each with a pause after its answer."""
    asked = Asked()
    stop = threading.Event()

    def keep(reply: LoadReply) -> float | None:
        asked.replies.append(reply)
        return None if stop.is_set() else reply.ended_s + _PAUSE_S

    thread = threading.Thread(
        target=Generator(target, manner).run, args=([0.0] * clients, keep), daemon=True
    )
    thread.start()
    try:
        yield asked
    finally:
        stop.set()
        thread.join(_JOIN_S)
