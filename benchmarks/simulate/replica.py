"""A replica: its queue, its batches, and the requests that it has now."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple


class Request(NamedTuple):
    """One sentence on its way. Times are in seconds since the start."""

    asked_at: float
    #: When it reached its replica.
    came_at: float
    #: Its length divided by the mean.
    length: float
    ingress: int


@dataclass(frozen=True)
class Batching:
    """How a replica makes batches, as `MicroBatcher` does."""

    batch_size: int
    wait_s: float
    queue_size: int
    timeout_s: float
    #: Seconds of a batch, by its rows.
    table: list[float]

    def forecast(self, replica: Replica) -> float:
        """Seconds until a request that comes now has its answer, at most about."""
        batches = (len(replica.waiting) + replica.running) / self.batch_size + 1
        return self.wait_s + batches / replica.works * self.table[-1]


class Replica:
    """Takes requests, and gives the batch that leaves next."""

    __slots__ = (
        "connections",
        "idle",
        "ongoing",
        "running",
        "wakes_at",
        "waiting",
        "works",
    )

    def __init__(self, works: int, ingresses: int) -> None:
        self.waiting: deque[Request] = deque()
        self.works = works
        self.idle = works
        #: Rows of the batches that run.
        self.running = 0
        #: Requests that it has, by the ingress that sent them, and all together.
        self.connections = [0] * ingresses
        self.ongoing = 0
        #: When the batch that is being filled leaves at the latest.
        self.wakes_at = -1.0

    def find_leaving(self, batching: Batching) -> float | None:
        """When the next batch leaves; None where nothing waits or every work is busy."""
        if not (self.waiting and self.idle):
            return None
        if len(self.waiting) >= batching.batch_size:
            return 0.0
        return self.waiting[0].came_at + batching.wait_s

    def take(self, batching: Batching, now: float) -> tuple[list[Request], float]:
        """The batch that leaves now, and how long it takes. Rows whose time is over are
        in it, and take none."""
        count = min(batching.batch_size, len(self.waiting))
        batch = [self.waiting.popleft() for _ in range(count)]
        born = now - batching.timeout_s
        lengths = [request.length for request in batch if request.asked_at > born]
        rows = len(lengths)
        self.idle -= 1
        self.running += count
        if not rows:
            return batch, 0.0
        return batch, batching.table[rows] * sum(lengths) / rows

    def finish(self, batch: list[Request]) -> None:
        """Gives the work back, and forgets the batch's requests."""
        self.idle += 1
        self.running -= len(batch)
        self.ongoing -= len(batch)
        for request in batch:
            self.connections[request.ingress] -= 1
