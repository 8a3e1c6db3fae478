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

from benchmarks.simulate.scenario import AutoscalingEntry, Scenario

#: The share of a request's time that a forecast may use up, as in the gateway.
_MARGIN = 0.8
#: The pause before a refused client asks again, and between looks at an ending replica.
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
    #: The fewest and the most replicas; None where nothing is scaled.
    bounds: tuple[int, int] | None = None


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
    #: Seconds of replicas, with those that start or end.
    held_s: float = 0.0
    most_held: int = 0
    #: The number of requests of the whole that one of this tally stands for, and of
    #: seconds that one of its seconds does.
    weight: float = 1.0
    span: float = 1.0


@dataclass(frozen=True)
class ScalingDecision:
    """The number of replicas, and the wish for more or fewer that does not yet count."""

    target: int
    is_up: bool | None = None
    #: The start of the wish, which has had no break since.
    since_s: float = 0.0


def decide(
    entry: AutoscalingEntry,
    last: ScalingDecision,
    *,
    now_s: float,
    wanted: float,
    bounds: tuple[int, int],
) -> ScalingDecision:
    """Return Serve's next decision, where the requests are those of `wanted` replicas. A
    wish becomes the target after its delay."""
    least, most = bounds
    desired = min(most, max(least, math.ceil(wanted)))
    if desired == last.target:
        return ScalingDecision(last.target)
    is_up = desired > last.target
    since_s = last.since_s if last.is_up is is_up else now_s
    delay_s = entry.upscale_delay_s if is_up else entry.downscale_delay_s
    if now_s - since_s + _EPSILON_S < delay_s:
        return ScalingDecision(last.target, is_up, since_s)
    return ScalingDecision(desired)


class _Row(NamedTuple):
    """One sentence in a replica's queue."""

    asked_at: float
    #: The time at which it reached its replica.
    came_at: float
    #: Its length divided by the mean.
    length: float
    ingress: int


class _Replica:
    """The queue of a replica, and what runs on it."""

    __slots__ = ("connections", "idle", "ongoing", "running", "waiting", "wakes_at")

    def __init__(self, works: int, ingresses: int) -> None:
        self.waiting: deque[_Row] = deque()
        self.idle = works
        #: Rows of the batches that run.
        self.running = 0
        #: Requests that it has, by the ingress that sent them, and all together.
        self.connections = [0] * ingresses
        self.ongoing = 0
        #: The latest time at which the batch that is being filled leaves.
        self.wakes_at = -1.0


class _Pool:
    """A language's replicas. Those that start or end get no requests."""

    def __init__(self, part: LanguagePart, tally: Tally, ingresses: list[int]) -> None:
        self.part = part
        self.tally = tally
        self.replicas: list[_Replica] = []
        self.ending: set[_Replica] = set()
        self.starting = 0
        #: Replicas that start and are not wanted any more.
        self.unwanted = 0
        self.decision = ScalingDecision(part.replicas)
        #: Ongoing requests, their sum over time, and earlier sums with their times.
        self.ongoing = 0
        self.area_s = 0.0
        self.changed_at = 0.0
        self.history: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        #: The replica with which each ingress begins to look.
        self.turns = ingresses

    @property
    def held(self) -> int:
        """Replicas that are paid for."""
        return len(self.replicas) + len(self.ending) + self.starting - self.unwanted

    def change_ongoing(self, now: float, change: int) -> None:
        """Counts requests that came or went."""
        self.area_s += self.ongoing * (now - self.changed_at)
        self.changed_at = now
        self.ongoing += change

    def measure_ongoing(self, now: float, look_back_s: float) -> float:
        """The mean number of requests in the time before."""
        self.change_ongoing(now, 0)
        self.history.append((now, self.area_s))
        while len(self.history) > 2 and self.history[1][0] <= now - look_back_s:
            self.history.popleft()
        since, area_s = self.history[0]
        return (self.area_s - area_s) / (now - since)

    def find_least(self, ingress: int) -> _Replica:
        """Return the replica with the fewest requests of this ingress; alike ones in turns."""
        count = len(self.replicas)
        start = self.turns[ingress] % count
        chosen, fewest = start, math.inf
        for step in range(count):
            place = (start + step) % count
            connections = self.replicas[place].connections[ingress]
            if connections < fewest:
                chosen, fewest = place, connections
                if not fewest:
                    break
        self.turns[ingress] = chosen + 1
        return self.replicas[chosen]

    def find_better(self, rng: random.Random) -> _Replica:
        """The one of two, drawn at random, that has fewer requests of all ingresses."""
        pair = rng.sample(self.replicas, min(2, len(self.replicas)))
        return min(pair, key=lambda replica: replica.ongoing)


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
        gateways, replica = scenario.gateways, scenario.replica
        self._scenario = scenario
        self._from, self._until = settle_s, settle_s + seconds
        self._rng = random.Random(seed)
        self._env = simpy.Environment()
        self._gateway_free = [0.0] * gateways.processes
        self._gateway_s = gateways.request_ms / 1000
        self._gateway, self._ingress = itertools.count(), itertools.count()
        self._timeout_s = scenario.traffic.timeout_s
        self._wait_s = replica.max_batch_delay / 1000
        self._batch_size = scenario.batch_size
        #: Seconds of a batch, by its rows.
        self._table = scenario.tabulate()
        self._draw_length = make_lengths(scenario.traffic.tokens_spread, self._rng)
        self._is_closed = scenario.traffic.clients is not None
        self._pools = [
            _Pool(
                part,
                Tally(part.language, seconds),
                [self._rng.randrange(1 << 16) for _ in range(gateways.ingresses)],
            )
            for part in parts
        ]

    def run(self) -> list[Tally]:
        """A tally per part: what ended in the time that counts."""
        for pool in self._pools:
            pool.replicas = [self._make_replica() for _ in range(pool.part.replicas)]
            self._count_held(pool, pool.held)
            self._count_works(pool, pool.held)
            if pool.part.most_per_s:
                self._env.process(self._arrive(pool))
        for _ in range(self._scenario.traffic.clients or 0):
            self._ask_again(0.0)
        if any(pool.part.bounds for pool in self._pools):
            self._env.process(self._scale())
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
        now = self._env.now
        if not self._gateway_s:
            self._route(pool, now)
            return
        free = self._gateway_free
        place = next(self._gateway) % len(free)
        free[place] = max(free[place], now) + self._gateway_s
        self._after(free[place] - now, lambda: self._route(pool, now))

    def _route(self, pool: _Pool, asked_at: float) -> None:
        now, gateways = self._env.now, self._scenario.gateways
        ingress = next(self._ingress) % gateways.ingresses
        is_least = gateways.routing == "leastconn"
        replica = pool.find_least(ingress) if is_least else pool.find_better(self._rng)
        is_full = len(replica.waiting) >= self._scenario.replica.queue_size
        if is_full or self._forecast(replica) > _MARGIN * (
            asked_at + self._timeout_s - now
        ):
            pool.tally.refused += self._counts
            if self._is_closed:
                self._ask_again(_PAUSE_S)
            return
        replica.waiting.append(_Row(asked_at, now, self._draw_length(), ingress))
        replica.connections[ingress] += 1
        replica.ongoing += 1
        pool.change_ongoing(now, 1)
        self._advance(pool, replica)

    def _forecast(self, replica: _Replica) -> float:
        """Seconds until a request that comes now has its answer, at most about."""
        batches = (len(replica.waiting) + replica.running) / self._batch_size + 1
        return self._wait_s + batches / self._scenario.replica.workers * self._table[-1]

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
        replica.running += count
        pool.tally.busy_s += self._clip(now + seconds) - self._clip(now)
        if self._counts:
            pool.tally.batches += 1
            pool.tally.rows += count
        self._after(seconds, lambda: self._finish(pool, replica, batch))

    def _finish(self, pool: _Pool, replica: _Replica, batch: list[_Row]) -> None:
        replica.idle += 1
        replica.running -= len(batch)
        replica.ongoing -= len(batch)
        for row in batch:
            replica.connections[row.ingress] -= 1
        pool.change_ongoing(self._env.now, -len(batch))
        if self._counts:
            times = [self._env.now - row.asked_at for row in batch]
            good = [time for time in times if time <= self._timeout_s]
            pool.tally.latencies_s.extend(good)
            pool.tally.late += len(times) - len(good)
        if self._is_closed:
            for _ in batch:
                self._ask_again(0.0)
        self._advance(pool, replica)

    # Replicas come and go.

    def _make_replica(self) -> _Replica:
        scenario = self._scenario
        return _Replica(scenario.replica.workers, scenario.gateways.ingresses)

    def _scale(self) -> Generator[simpy.Event, None, None]:
        entry = self._scenario.autoscaling
        while True:
            yield self._env.timeout(entry.push_interval_s)
            for pool in self._pools:
                if pool.part.bounds:
                    now = self._env.now
                    ongoing = pool.measure_ongoing(now, entry.look_back_period_s)
                    wanted = ongoing / self._scenario.target_ongoing_requests
                    last, bounds = pool.decision, pool.part.bounds
                    pool.decision = decide(
                        entry, last, now_s=now, wanted=wanted, bounds=bounds
                    )
                    self._change_replicas(pool, pool.decision.target - last.target)

    def _change_replicas(self, pool: _Pool, change: int) -> None:
        for _ in range(change):
            pool.starting += 1
            self._count_held(pool, 1)
            self._env.process(self._start(pool))
        for _ in range(-change):
            if pool.starting > pool.unwanted:
                pool.unwanted += 1
                self._count_held(pool, -1)
                continue
            replica = pool.replicas.pop()
            pool.ending.add(replica)
            self._count_works(pool, -1)
            self._env.process(self._end(pool, replica))

    def _start(self, pool: _Pool) -> Generator[simpy.Event, None, None]:
        yield self._env.timeout(self._scenario.replica.start_s)
        pool.starting -= 1
        if pool.unwanted:
            pool.unwanted -= 1
        else:
            pool.replicas.append(self._make_replica())
            self._count_works(pool, 1)

    def _end(
        self, pool: _Pool, replica: _Replica
    ) -> Generator[simpy.Event, None, None]:
        yield self._env.timeout(self._scenario.replica.drain_s)
        while replica.ongoing:
            yield self._env.timeout(_PAUSE_S)
        pool.ending.discard(replica)
        self._count_held(pool, -1)

    def _clip(self, at: float) -> float:
        """The nearest time that counts."""
        return min(max(at, self._from), self._until)

    def _count_held(self, pool: _Pool, change: int) -> None:
        """Replicas more or fewer are held from now to the end."""
        pool.tally.held_s += change * (self._until - self._clip(self._env.now))
        pool.tally.most_held = max(pool.tally.most_held, pool.held)

    def _count_works(self, pool: _Pool, change: int) -> None:
        works = change * self._scenario.replica.workers
        pool.tally.works_s += works * (self._until - self._clip(self._env.now))


def make_lengths(spread: float, rng: random.Random) -> Callable[[], float]:
    """Draws sentences' lengths, divided by the mean. Lengths that differ have a logarithmic
    normal distribution."""
    if not spread:
        return lambda: 1.0
    sigma = math.sqrt(math.log1p(spread**2))
    return lambda: rng.lognormvariate(-(sigma**2) / 2, sigma)
