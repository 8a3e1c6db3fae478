"""The events of a cluster, one after the other: requests come to the gateways, go to a
replica of their language, and are answered by batches.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.simulate.autoscaling import decide
from benchmarks.simulate.pool import Part, Pool, Tally
from benchmarks.simulate.replica import Batching, Replica, Request
from benchmarks.simulate.scenario import Scenario

#: The share of a request's time that a forecast may use up, as in the gateway.
_MARGIN = 0.8
#: When a client asks again that was refused.
_PAUSE_S = 1.0


def simulate(
    scenario: Scenario,
    parts: Sequence[Part],
    *,
    seconds: float,
    settle_s: float,
    seed: str,
    tick: Callable[[], None] = lambda: None,
) -> list[Tally]:
    """A tally per part: what ended after `settle_s`, within `seconds`. The same seed gives
    the same tallies. `tick` is called once for each simulated second."""
    cluster = _Cluster(scenario, parts, seconds=seconds, settle_s=settle_s, seed=seed)
    return cluster.run(tick)


class _Cluster:
    """All queues, and the clock."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Sequence[Part],
        *,
        seconds: float,
        settle_s: float,
        seed: str,
    ) -> None:
        self._scenario = scenario
        self._from, self._until = settle_s, settle_s + seconds
        self._rng = random.Random(seed)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._order = itertools.count()
        self._gateway_free = [0.0] * scenario.gateways.processes
        self._gateway_s = scenario.gateways.request_ms / 1000
        self._gateway, self._ingress = itertools.count(), itertools.count()
        self._batching = Batching(
            scenario.batch_size,
            scenario.replica.max_batch_delay / 1000,
            scenario.replica.queue_size,
            scenario.traffic.timeout_s,
            scenario.make_service().tabulate(scenario.batch_size),
        )
        self._draw_length = make_lengths(scenario.traffic.tokens_spread, self._rng)
        self._is_least = scenario.gateways.routing == "leastconn"
        self._pools = [Pool(p, Tally(p.language, seconds), self._rng) for p in parts]
        self._is_closed = scenario.traffic.clients is not None

    def run(self, tick: Callable[[], None]) -> list[Tally]:
        for pool in self._pools:
            pool.start_ingresses(self._scenario.gateways.ingresses)
            pool.replicas = [self._make_replica() for _ in range(pool.part.replicas)]
            self._count_held(pool, pool.held)
            self._count_works(pool, pool.held)
            if pool.part.most_per_s:
                self._plan_arrival(pool)
        for _ in range(self._scenario.traffic.clients or 0):
            self._ask_again(0.0)
        if any(pool.part.bounds for pool in self._pools):
            self._after(self._scenario.autoscaling.push_interval_s, self._scale, None)
        for second in range(math.ceil(self._until)):
            self._run_until(min(second + 1.0, self._until))
            tick()
        return [pool.tally for pool in self._pools]

    def _run_until(self, until: float) -> None:
        events = self._events
        while events and events[0][0] <= until:
            self._now, _, act, subject = heapq.heappop(events)
            act(subject)
        self._now = until

    def _after(self, delay_s: float, act: Callable[[Any], None], subject: Any) -> None:
        event = (self._now + delay_s, next(self._order), act, subject)
        heapq.heappush(self._events, event)

    @property
    def _counts(self) -> bool:
        return self._now >= self._from

    # From a client to a replica.

    def _plan_arrival(self, pool: Pool) -> None:
        gap_s = self._rng.expovariate(pool.part.most_per_s)
        self._after(gap_s, self._arrive, pool)

    def _arrive(self, pool: Pool) -> None:
        """Arrivals are drawn for the highest rate, and dropped where it is lower."""
        self._plan_arrival(pool)
        rate = pool.part.find_rate(self._now)
        if rate >= pool.part.most_per_s or (
            self._rng.random() * pool.part.most_per_s < rate
        ):
            self._enter(pool)

    def _ask_again(self, delay_s: float) -> None:
        shares = [pool.part.share for pool in self._pools]
        (pool,) = self._rng.choices(self._pools, shares)
        self._after(delay_s, self._enter, pool)

    def _enter(self, pool: Pool) -> None:
        """The gateway processes take turns, and each does one thing at a time."""
        if not self._gateway_s:
            self._route((pool, self._now))
            return
        free = self._gateway_free
        place = next(self._gateway) % len(free)
        free[place] = max(free[place], self._now) + self._gateway_s
        self._after(free[place] - self._now, self._route, (pool, self._now))

    def _route(self, subject: tuple[Pool, float]) -> None:
        pool, asked_at = subject
        ingress = next(self._ingress) % self._scenario.gateways.ingresses
        find = pool.find_least if self._is_least else pool.find_better
        replica = find(ingress)
        left_s = asked_at + self._batching.timeout_s - self._now
        if (
            len(replica.waiting) >= self._batching.queue_size
            or self._batching.forecast(replica) > _MARGIN * left_s
        ):
            pool.tally.refused += self._counts
            if self._is_closed:
                self._ask_again(_PAUSE_S)
            return
        request = Request(asked_at, self._now, self._draw_length(), ingress)
        replica.waiting.append(request)
        replica.connections[ingress] += 1
        replica.ongoing += 1
        pool.change_ongoing(self._now, 1)
        self._advance(pool, replica)

    # From a replica to the client.

    def _advance(self, pool: Pool, replica: Replica) -> None:
        """Starts all batches that can leave, and waits for the next one."""
        while (leaves_at := replica.find_leaving(self._batching)) is not None:
            if leaves_at > self._now:
                self._wake_at(leaves_at, pool, replica)
                return
            batch, seconds = replica.take(self._batching, self._now)
            busy_s = self._clip(self._now + seconds) - self._clip(self._now)
            pool.tally.busy_s += busy_s
            if self._counts:
                pool.tally.batches += 1
                pool.tally.rows += len(batch)
            self._after(seconds, self._finish, (pool, replica, batch))

    def _wake_at(self, leaves_at: float, pool: Pool, replica: Replica) -> None:
        if replica.wakes_at == leaves_at:
            return
        replica.wakes_at = leaves_at
        event = (leaves_at, next(self._order), self._wake, (pool, replica))
        heapq.heappush(self._events, event)

    def _wake(self, subject: tuple[Pool, Replica]) -> None:
        self._advance(*subject)

    def _finish(self, subject: tuple[Pool, Replica, list[Request]]) -> None:
        pool, replica, batch = subject
        replica.finish(batch)
        pool.change_ongoing(self._now, -len(batch))
        if self._counts:
            self._tally(pool.tally, batch)
        if self._is_closed:
            for _ in batch:
                self._ask_again(0.0)
        self._advance(pool, replica)

    def _tally(self, tally: Tally, batch: Sequence[Request]) -> None:
        times = [self._now - request.asked_at for request in batch]
        good = [time for time in times if time <= self._batching.timeout_s]
        tally.latencies_s.extend(good)
        tally.late += len(times) - len(good)

    # Replicas come and go.

    def _make_replica(self) -> Replica:
        gateways = self._scenario.gateways
        return Replica(self._scenario.replica.workers, gateways.ingresses)

    def _scale(self, _: None) -> None:
        entry = self._scenario.autoscaling
        self._after(entry.push_interval_s, self._scale, None)
        for pool in self._pools:
            if pool.part.bounds:
                ongoing = pool.measure_ongoing(self._now, entry.look_back_period_s)
                before = pool.decision.target
                pool.decision = decide(
                    entry,
                    pool.decision,
                    now_s=self._now,
                    wanted=ongoing / self._scenario.target_ongoing_requests,
                    bounds=pool.part.bounds,
                )
                self._change_replicas(pool, pool.decision.target - before)

    def _change_replicas(self, pool: Pool, change: int) -> None:
        for _ in range(change):
            pool.starting += 1
            self._count_held(pool, 1)
            self._after(self._scenario.replica.start_s, self._join, pool)
        for _ in range(-change):
            if pool.starting > pool.unwanted:
                pool.unwanted += 1
                self._count_held(pool, -1)
                continue
            replica = pool.replicas.pop()
            pool.ending.add(replica)
            self._count_works(pool, -1)
            self._after(self._scenario.replica.drain_s, self._end, (pool, replica))

    def _join(self, pool: Pool) -> None:
        pool.starting -= 1
        if pool.unwanted:
            pool.unwanted -= 1
            return
        pool.replicas.append(self._make_replica())
        self._count_works(pool, 1)

    def _end(self, subject: tuple[Pool, Replica]) -> None:
        pool, replica = subject
        if replica.ongoing:
            self._after(_PAUSE_S, self._end, subject)
            return
        pool.ending.discard(replica)
        self._count_held(pool, -1)

    def _clip(self, at: float) -> float:
        """The nearest time that counts."""
        return min(max(at, self._from), self._until)

    def _count_held(self, pool: Pool, change: int) -> None:
        """Replicas more or fewer are held from now to the end."""
        pool.tally.held_s += change * (self._until - self._clip(self._now))
        pool.tally.most_held = max(pool.tally.most_held, pool.held)

    def _count_works(self, pool: Pool, change: int) -> None:
        works = change * self._scenario.replica.workers
        pool.tally.works_s += works * (self._until - self._clip(self._now))


def make_lengths(spread: float, rng: random.Random) -> Callable[[], float]:
    """Draws sentences' lengths, divided by the mean. Lengths that differ have a logarithmic
    normal distribution."""
    if not spread:
        return lambda: 1.0
    sigma = math.sqrt(math.log1p(spread**2))
    return lambda: rng.lognormvariate(-(sigma**2) / 2, sigma)
