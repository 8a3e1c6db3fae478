"""Decides which client's row is sent next, and which client's text the event loop works on
next: every client gets a fair share, however much the others send.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

import gevent
from gevent.event import Event

from gateway.admission.policy import LONGEST_RETRY_S, MARGIN
from gateway.errors import Overloaded
from gateway.http.request import Call
from gateway.threads import let_others_run

Item = TypeVar("Item")

SHORT_WEIGHT = 4
#: The number of clients to remember besides those with waiting items.
_SPARE = 1000
#: The weight of the next item in the average cost, and of slices in the average time of a unit.
_GAIN = 0.05
#: The work on texts, about 1 ms, after which other requests get a turn.
_SLICE = 2000
#: Requests with more slices than this are bulk.
_FEW_SLICES = 4


class ClientQueue(NamedTuple):
    """A queue with its own share: one client's short requests, or its bulk texts."""

    client: str
    is_bulk: bool = False

    @property
    def weight(self) -> int:
        """The share: four for short requests, as people wait for them; one for bulk."""
        return 1 if self.is_bulk else SHORT_WEIGHT


class AnnouncedWork:
    """The announced work of each client that has not begun. Sums are kept, because there may be
    thousands of clients."""

    def __init__(self) -> None:
        self.cost, self.rows = 0.0, 0
        self._clients: dict[ClientQueue, tuple[float, int]] = {}
        self._weights = 0

    def add(self, client: ClientQueue, cost: float, rows: int) -> None:
        """Add rows with this total cost."""
        if client not in self._clients:
            self._weights += client.weight
        self._count(client, cost, rows)

    def remove(self, client: ClientQueue, cost: float, rows: int) -> None:
        """Remove rows with this total cost."""
        if client not in self._clients:
            return
        own_cost, own_rows = self._count(client, -cost, -rows)
        if not own_rows:
            del self._clients[client]
            self._weights -= client.weight
            self.cost = self.cost - own_cost if self._clients else 0.0

    def count_turns(self, client: ClientQueue, cost: float) -> float:
        """The work done by the time this client has finished `cost` more, including the shares
        that all other clients get meanwhile."""
        own_cost, own_rows = self._clients.get(client, (0.0, 0))
        weights = self._weights + (0 if own_rows else client.weight)
        return (own_cost + cost) * weights / client.weight

    def _count(self, client: ClientQueue, cost: float, rows: int) -> tuple[float, int]:
        self.cost += cost
        self.rows += rows
        own_cost, own_rows = self._clients.get(client, (0.0, 0))
        own = self._clients[client] = own_cost + cost, own_rows + rows
        return own


@dataclass
class FairQueue(Generic[Item]):
    """Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): a flow's next item begins,
    in virtual time, where its last one ended, and the earliest begins first.

    Removing an item also advances virtual time by an average item, as in self-clocked fair
    queueing (Golestani, INFOCOM 1994). A new flow then begins behind the waiting ones;
    otherwise, flows that come and go could keep a flow's second item waiting forever."""

    _heap: list[tuple[float, int, Item]] = field(default_factory=list)
    _ends: dict[ClientQueue, float] = field(default_factory=dict)
    _now: float = 0.0
    _numbers: count[int] = field(default_factory=count)
    mean_cost: float = 0.0

    def push(self, flow: ClientQueue, cost: float, item: Item) -> None:
        """Add an item behind the others of its flow."""
        self.mean_cost += (_GAIN if self.mean_cost else 1.0) * (cost - self.mean_cost)
        begin = max(self._now, self._ends.get(flow, 0.0))
        self._ends[flow] = begin + cost / flow.weight
        heapq.heappush(self._heap, (begin, next(self._numbers), item))
        if len(self._ends) > _SPARE + 2 * len(self._heap):
            self._forget()

    def refund(self, flow: ClientQueue, cost: float) -> None:
        """Return the time of an item that will not run to its flow's next items."""
        if flow in self._ends:
            self._ends[flow] -= cost / flow.weight

    def peek(self) -> Item:
        """Return the next item. Raises IndexError if there is none."""
        return self._heap[0][2]

    def pop(self) -> Item:
        """Remove and return the next item. Raises IndexError if there is none."""
        begin, _, item = heapq.heappop(self._heap)
        self._now = max(self._now, begin + self.mean_cost / SHORT_WEIGHT)
        if not self._heap:
            self._ends.clear()
            self._now = 0.0
        return item

    def retain(self, is_wanted: Callable[[Item], bool]) -> None:
        """Drop all items but the wanted ones."""
        self._heap = [entry for entry in self._heap if is_wanted(entry[2])]
        heapq.heapify(self._heap)

    def _forget(self) -> None:
        """Forget the clients that used least, because they lose least by starting over."""
        half = len(self._ends) // 2
        self._ends = dict(heapq.nlargest(half, self._ends.items(), key=itemgetter(1)))

    def __len__(self) -> int:
        return len(self._heap)


@dataclass(eq=False)
class _Slice:
    """Consecutive texts of a request."""

    texts: list[str] = field(default_factory=list)
    cost: int = 0
    called: Event = field(default_factory=Event)
    is_given_up: bool = False


class LoopQueue:
    """A queue for work on texts that would delay all other requests if the event loop did it at
    once. Clients take turns, slice by slice. Safe to share among greenlets."""

    def __init__(self) -> None:
        self._queue: FairQueue[_Slice] = FairQueue()
        self._announced = AnnouncedWork()
        #: Seconds per unit of work, including the other requests served meanwhile.
        self._unit_s = 0.0
        self._is_running = False

    def take_turns(
        self, texts: Sequence[str], caller: Call, weigh: Callable[[str], int]
    ) -> Generator[str, None, None]:
        """Yield each text when its turn comes; `weigh` returns the work of one.

        Raises Overloaded at the start if the caller's time is too short for all texts, and
        later DeadlineExceeded or ClientGone."""
        slices = list(_cut(texts, weigh))
        left = len(slices)
        cost = sum(part.cost for part in slices)
        client = ClientQueue(caller.address, caller.is_bulk or left > _FEW_SLICES)
        self._check_turns(client, cost, caller)
        self._announced.add(client, cost, left)
        try:
            for part in slices:
                self._wait(client, part, caller)
                yield from part.texts
                self._announced.remove(client, part.cost, 1)
                left -= 1
                cost -= part.cost
        finally:
            self._announced.remove(client, cost, left)

    def _check_turns(self, client: ClientQueue, cost: int, caller: Call) -> None:
        """Raise Overloaded if other clients' turns and the caller's own would take too long."""
        if not self._announced.rows:
            return
        in_turns = self._announced.count_turns(client, cost)
        needed_s = min(in_turns, self._announced.cost + cost) * self._unit_s
        left_s = max(0.0, caller.deadline - time.monotonic())
        if needed_s > left_s * MARGIN:
            raise Overloaded(
                f"Identifying the languages of these texts and those ahead of them would take "
                f"about {needed_s:.1f} s; the request has {left_s:.1f} s left.",
                retry_after_s=min(LONGEST_RETRY_S, needed_s - left_s * MARGIN),
            )

    def _wait(self, client: ClientQueue, part: _Slice, caller: Call) -> None:
        caller.check("the texts were read")
        if not self._is_running:
            self._is_running = True
            gevent.spawn(self._run_slices)
            return
        self._queue.push(client, part.cost, part)
        try:
            while not part.called.wait(caller.check("the texts were read")):
                pass
        except BaseException:
            part.is_given_up = True
            raise

    def _run_slices(self) -> None:
        """Run the queued slices, and let other greenlets run after each turn."""
        let_others_run()
        while self._queue:
            began, done = time.monotonic(), 0
            while self._queue and done < _SLICE:
                part = self._queue.pop()
                if not part.is_given_up:
                    done += part.cost
                    part.called.set()
            let_others_run()
            if done:
                unit_s = (time.monotonic() - began) / done
                gain = _GAIN if self._unit_s else 1.0
                self._unit_s += gain * (unit_s - self._unit_s)
        self._is_running = False


def _cut(texts: Sequence[str], weigh: Callable[[str], int]) -> Iterator[_Slice]:
    part = _Slice()
    for text in texts:
        cost = weigh(text)
        if part.texts and part.cost + cost > _SLICE:
            yield part
            part = _Slice()
        part.texts.append(text)
        part.cost += cost
    yield part
