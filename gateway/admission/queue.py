"""Decides whose row is next: every client gets a fair share, however much the others
ask for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

SHORT_WEIGHT = 4
#: Clients that are remembered besides those with waiting items.
_SPARE = 1000
#: The weight of the next item in the average cost.
_GAIN = 0.05


class ClientQueue(NamedTuple):
    """A queue with a share of its own: one client's short requests, or its bulk texts."""

    client: str
    is_bulk: bool = False

    @property
    def weight(self) -> int:
        """Short requests have four times the share of bulk, because people wait for them."""
        return 1 if self.is_bulk else SHORT_WEIGHT


@dataclass
class _Announced:
    """The work of one client."""

    cost: float = 0.0
    rows: int = 0


class AnnouncedWork:
    """The work that clients have announced and not been given. Sums are kept, because there
    may be thousands of clients."""

    def __init__(self) -> None:
        self.cost, self.rows = 0.0, 0
        self._clients: dict[ClientQueue, _Announced] = {}
        self._weights = 0

    def add(self, client: ClientQueue, cost: float, rows: int) -> None:
        """Add rows of this cost together."""
        if client not in self._clients:
            self._clients[client] = _Announced()
            self._weights += client.weight
        self._count(self._clients[client], cost, rows)

    def remove(self, client: ClientQueue, cost: float, rows: int) -> None:
        """Take rows back."""
        own = self._clients.get(client)
        if own is None:
            return
        self._count(own, -cost, -rows)
        if not own.rows:
            del self._clients[client]
            self._weights -= client.weight
            self.cost = self.cost - own.cost if self._clients else 0.0

    def count_turns(self, client: ClientQueue, cost: float) -> float:
        """The work that is done by the end of `cost` more for this client: until then every
        other client gets its share."""
        own = self._clients.get(client)
        weights = self._weights + (0 if own else client.weight)
        return ((own.cost if own else 0.0) + cost) * weights / client.weight

    def _count(self, own: _Announced, cost: float, rows: int) -> None:
        own.cost += cost
        own.rows += rows
        self.cost += cost
        self.rows += rows


@dataclass
class FairQueue(Generic[Item]):
    """Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): a flow's next item
    begins, in virtual time, where its last one ended, and the earliest begins first.

    Taking an item also moves virtual time on, by an average item, as in self-clocked fair
    queueing (Golestani, INFOCOM 1994). A new flow then begins behind those that wait;
    otherwise flows that come and go could keep a flow's second item waiting forever.
    """

    _heap: list[tuple[float, int, Item]] = field(default_factory=list)
    _ends: dict[ClientQueue, float] = field(default_factory=dict)
    _now: float = 0.0
    _numbers: count[int] = field(default_factory=count)
    #: The cost of an average item.
    mean_cost: float = 0.0

    def push(self, flow: ClientQueue, cost: float, item: Item) -> None:
        """Adds an item behind others of its flow."""
        self.mean_cost += (_GAIN if self.mean_cost else 1.0) * (cost - self.mean_cost)
        begin = max(self._now, self._ends.get(flow, 0.0))
        self._ends[flow] = begin + cost / flow.weight
        heapq.heappush(self._heap, (begin, next(self._numbers), item))
        if len(self._ends) > _SPARE + 2 * len(self._heap):
            self._forget()

    def peek(self) -> Item:
        """The next item. Raises IndexError if there is none."""
        return self._heap[0][2]

    def pop(self) -> Item:
        """Removes the next item. Raises IndexError if there is none."""
        begin, _, item = heapq.heappop(self._heap)
        self._now = max(self._now, begin + self.mean_cost / SHORT_WEIGHT)
        if not self._heap:  # the queue is empty
            self._ends.clear()
            self._now = 0.0
        return item

    def retain(self, is_wanted: Callable[[Item], bool]) -> None:
        """Drops all items but the wanted ones."""
        self._heap = [entry for entry in self._heap if is_wanted(entry[2])]
        heapq.heapify(self._heap)

    def _forget(self) -> None:
        """Forgets the clients that had least: they lose least by beginning again."""
        half = len(self._ends) // 2
        self._ends = dict(heapq.nlargest(half, self._ends.items(), key=itemgetter(1)))

    def __len__(self) -> int:
        return len(self._heap)
