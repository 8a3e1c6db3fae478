"""Shares the event loop's time among clients: for work on texts that is done on the loop
itself, and would delay every other request if it came in one piece.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import gevent
from gevent.event import Event

from gateway.admission.policy import LONGEST_RETRY_S, MARGIN
from gateway.admission.queue import AnnouncedWork, ClientQueue, FairQueue
from gateway.errors import Overloaded
from gateway.http.call import Call
from gateway.threads import let_others_run

#: The work after which every other request has a turn: about a millisecond's.
_SLICE = 2000
#: More slices than these are bulk.
_FEW_SLICES = 4
#: The weight of the next slices in the average time of a unit.
_GAIN = 0.05


@dataclass(eq=False)
class _Slice:
    """Some texts of a request."""

    texts: list[str] = field(default_factory=list)
    cost: int = 0
    called: Event = field(default_factory=Event)
    is_given_up: bool = False


class LoopQueue:
    """Work on the loop, slice by slice, of whichever client's turn it is. Safe to share among
    greenlets."""

    def __init__(self) -> None:
        self._queue: FairQueue[_Slice] = FairQueue()
        self._announced = AnnouncedWork()
        #: Seconds per unit of work, with all that others do meanwhile.
        self._unit_s = 0.0
        self._is_running = False

    def take_turns(
        self, texts: Sequence[str], caller: Call, weigh: Callable[[str], int]
    ) -> Generator[str, None, None]:
        """The texts, each when it is its turn; `weigh` tells the work of one.

        Raises Overloaded at once if the caller's time is too short for all of them, and later
        DeadlineExceeded or ClientGone.
        """
        slices = list(_cut(texts, weigh))
        left, cost = len(slices), sum(part.cost for part in slices)
        client = ClientQueue(caller.address, caller.is_bulk or left > _FEW_SLICES)
        self._check(client, cost, caller)
        self._announced.add(client, cost, left)
        try:
            for part in slices:
                self._wait(client, part, caller)
                yield from part.texts
                self._announced.remove(client, part.cost, 1)
                left, cost = left - 1, cost - part.cost
        finally:
            self._announced.remove(client, cost, left)

    def _check(self, client: ClientQueue, cost: int, caller: Call) -> None:
        """Raise Overloaded if other clients' turns and the caller's own take too long."""
        if not self._announced.rows:
            return
        in_turns = self._announced.count_turns(client, cost)
        needed_s = min(in_turns, self._announced.cost + cost) * self._unit_s
        left_s = max(0.0, caller.deadline - time.monotonic())
        if needed_s > left_s * MARGIN:
            raise Overloaded(
                f"Identifying the languages of texts takes about {needed_s:.1f} s with those "
                f"that wait; the request has {left_s:.1f} s.",
                retry_after_s=min(LONGEST_RETRY_S, needed_s - left_s * MARGIN),
            )

    def _wait(self, client: ClientQueue, part: _Slice, caller: Call) -> None:
        caller.check("the texts were read")
        if not self._is_running:
            self._is_running = True
            gevent.spawn(self._run)
            return
        self._queue.push(client, part.cost, part)
        try:
            while not part.called.wait(caller.check("the texts were read")):
                pass
        except BaseException:
            part.is_given_up = True
            raise

    def _run(self) -> None:
        """Has everybody else run between two slices, until no slice waits."""
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
