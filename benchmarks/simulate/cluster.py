"""The events of a cluster: requests come to the gateways, go to a replica of their language,
and are answered by batches.
"""

from __future__ import annotations

import itertools
import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import simpy

from benchmarks.simulate.scenario import Scenario

#: The share of a request's time that a forecast may use up, as in the gateway.
_MARGIN = 0.8
#: The pause before a refused client asks again.
_PAUSE_S = 1.0
#: Differences of times are not exact.
_EPSILON_S = 1e-6


@dataclass(frozen=True)
class LanguagePart:
    """The part of a simulation for one language."""

    language: str
    #: Requests/s at a time, and the most that they ever are; 0 if clients ask.
    find_rate: Callable[[float], float]
    most_per_s: float
    #: Its share of what clients ask.
    share: float
    replicas: int
    #: Replicas that each simulated one stands for, and all that are paid for.
    factor: float = 1.0
    held: int = 0


@dataclass
class Tally:
    """The fates of a language's requests within the time that counts."""

    language: str
    #: Seconds that counted.
    seconds: float
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    #: Not taken: the queue was full, or the answer would have come too late.
    refused: int = 0
    #: Taken, and not answered in time.
    late: int = 0
    batches: int = 0
    rows: int = 0
    #: Seconds of batches, and of the works that could have run one.
    busy_s: float = 0.0
    works_s: float = 0.0
    #: Seconds of replicas, with those that start or end, and the most at a time.
    held_s: float = 0.0
    most_held: int = 0
    #: The number of requests of the whole that one of this tally stands for, and of
    #: seconds that one of its seconds does.
    weight: float = 1.0
    span: float = 1.0


class _Row(NamedTuple):
    """One sentence in a replica's queue."""

    asked_at: float
    #: The time at which it reached its replica.
    came_at: float
    #: Its length divided by the mean.
    length: float
    ingress: int


@dataclass(eq=False, slots=True)
class _Replica:
    """The queue of a replica, and what runs on it."""

    idle: int
    #: Requests that it has, by the ingress that sent them.
    connections: list[int]
    #: All of them, those in its batches included.
    ongoing: int = 0
    waiting: deque[_Row] = field(default_factory=deque)
    #: The latest time at which the batch that is being filled leaves.
    wakes_at: float = -1.0


@dataclass(frozen=True)
class _Pool:
    """A language's replicas."""

    part: LanguagePart
    tally: Tally
    replicas: list[_Replica]
    #: The replica with which each ingress begins to look.
    turns: list[int]

    def find_least(self, ingress: int) -> _Replica:
        """Return the replica with the fewest requests of this ingress; alike ones in turns."""
        count, replicas = len(self.replicas), self.replicas
        start = self.turns[ingress] % count
        places = [*range(start, count), *range(start)]
        place: int = min(places, key=lambda n: replicas[n].connections[ingress])
        self.turns[ingress] = place + 1
        return replicas[place]


class Simulation:
    """All queues, and SimPy's clock. The same seed gives the same tallies."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Sequence[LanguagePart],
        *,
        seconds: float,
        settle_s: float,
        seed: str,
    ) -> None:
        self._scenario = scenario
        self._from, self._until = settle_s, settle_s + seconds
        self._rng = random.Random(seed)
        self._env = simpy.Environment()
        self._gateway_free = [0.0] * scenario.gateways.processes
        self._gateway, self._ingress = itertools.count(), itertools.count()
        self._timeout_s = scenario.traffic.timeout_s
        self._wait_s = scenario.replica.max_batch_delay / 1000
        self._batch_size = scenario.batch_size
        #: Seconds of a batch, by its rows.
        self._table = scenario.tabulate()
        self._draw_length = make_lengths(scenario.traffic.tokens_spread, self._rng)
        self._is_closed = scenario.traffic.clients is not None
        self._pools = [self._make_pool(part, seconds) for part in parts]

    def _make_pool(self, part: LanguagePart, seconds: float) -> _Pool:
        workers = self._scenario.replica.workers
        ingresses = range(self._scenario.gateways.ingresses)
        held_s = part.replicas * seconds
        return _Pool(
            part,
            Tally(
                part.language,
                seconds,
                works_s=held_s * workers,
                held_s=held_s,
                most_held=part.replicas,
            ),
            [_Replica(workers, [0 for _ in ingresses]) for _ in range(part.replicas)],
            [self._rng.randrange(1 << 16) for _ in ingresses],
        )

    def run(self) -> list[Tally]:
        """A tally per part: what ended in the time that counts."""
        for pool in self._pools:
            if pool.part.most_per_s:
                self._env.process(self._arrive(pool))
        for _ in range(self._scenario.traffic.clients or 0):
            self._ask_again(0.0)
        self._env.run(until=self._until)
        return [pool.tally for pool in self._pools]

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._env.timeout(delay_s).callbacks.append(lambda _: act())

    @property
    def _counts(self) -> bool:
        return self._env.now >= self._from

    # From a client to a replica.

    def _arrive(self, pool: _Pool) -> Generator[simpy.Event, None, None]:
        """Arrivals are drawn for the highest rate, and dropped where it is lower."""
        most = pool.part.most_per_s
        while True:
            yield self._env.timeout(self._rng.expovariate(most))
            rate = pool.part.find_rate(self._env.now)
            if rate >= most or self._rng.random() * most < rate:
                self._enter(pool)

    def _ask_again(self, delay_s: float) -> None:
        shares = [pool.part.share for pool in self._pools]
        (pool,) = self._rng.choices(self._pools, shares)
        self._after(delay_s, lambda: self._enter(pool))

    def _enter(self, pool: _Pool) -> None:
        """The gateway processes take turns, and each does one thing at a time."""
        now, request_s = self._env.now, self._scenario.gateways.request_ms / 1000
        if not request_s:
            self._route(pool, now)
            return
        free = self._gateway_free
        place = next(self._gateway) % len(free)
        free[place] = max(free[place], now) + request_s
        self._after(free[place] - now, lambda: self._route(pool, now))

    def _route(self, pool: _Pool, asked_at: float) -> None:
        """Refuses a request where the queue is full, or its answer would come too late."""
        now, gateways = self._env.now, self._scenario.gateways
        ingress = next(self._ingress) % gateways.ingresses
        replica = pool.find_least(ingress)
        batches = replica.ongoing / self._batch_size + 1
        works = self._scenario.replica.workers
        forecast_s = self._wait_s + batches / works * self._table[-1]
        is_full = len(replica.waiting) >= self._scenario.replica.queue_size
        if is_full or forecast_s > _MARGIN * (asked_at + self._timeout_s - now):
            pool.tally.refused += self._counts
            if self._is_closed:
                self._ask_again(_PAUSE_S)
            return
        replica.waiting.append(_Row(asked_at, now, self._draw_length(), ingress))
        replica.connections[ingress] += 1
        replica.ongoing += 1
        self._advance(pool, replica)

    # From a replica to the client.

    def _advance(self, pool: _Pool, replica: _Replica) -> None:
        """Starts all batches that can leave, and waits for the next one: a batch leaves
        when it is full, or when the window has ended that its first row began."""
        while replica.waiting and replica.idle:
            leaves_at = replica.waiting[0].came_at + self._wait_s
            is_full = len(replica.waiting) >= self._batch_size
            if not is_full and leaves_at > self._env.now + _EPSILON_S:
                if replica.wakes_at != leaves_at:
                    replica.wakes_at = leaves_at
                    delay_s = leaves_at - self._env.now
                    self._after(delay_s, lambda: self._advance(pool, replica))
                return
            self._start_batch(pool, replica)

    def _start_batch(self, pool: _Pool, replica: _Replica) -> None:
        """Rows whose time is over are in the batch, and take none."""
        now = self._env.now
        count = min(self._batch_size, len(replica.waiting))
        batch = [replica.waiting.popleft() for _ in range(count)]
        lengths = [r.length for r in batch if r.asked_at > now - self._timeout_s]
        rows = len(lengths)
        seconds = self._table[rows] * sum(lengths) / rows if rows else 0.0
        replica.idle -= 1
        pool.tally.busy_s += self._clip(now + seconds) - self._clip(now)
        if self._counts:
            pool.tally.batches += 1
            pool.tally.rows += count
        self._after(seconds, lambda: self._finish(pool, replica, batch))

    def _finish(self, pool: _Pool, replica: _Replica, batch: list[_Row]) -> None:
        replica.idle += 1
        replica.ongoing -= len(batch)
        for row in batch:
            replica.connections[row.ingress] -= 1
        if self._counts:
            times = [self._env.now - row.asked_at for row in batch]
            good = [time for time in times if time <= self._timeout_s]
            pool.tally.latencies_s.extend(good)
            pool.tally.late += len(times) - len(good)
        if self._is_closed:
            for _ in batch:
                self._ask_again(0.0)
        self._advance(pool, replica)

    def _clip(self, at: float) -> float:
        """The nearest time that counts."""
        return min(max(at, self._from), self._until)


def make_lengths(spread: float, rng: random.Random) -> Callable[[], float]:
    """Draws sentences' lengths, divided by the mean. Lengths that differ have a logarithmic
    normal distribution."""
    if not spread:
        return lambda: 1.0
    sigma = math.sqrt(math.log1p(spread**2))
    return lambda: rng.lognormvariate(-(sigma**2) / 2, sigma)
