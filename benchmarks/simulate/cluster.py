"""`python -m benchmarks simulate`: the figures of a scenario's gateways and replicas.

Requests come to the gateways, go to a replica of their language, and are answered by batches. A
day of a large cluster is made of moments: each is simulated with a few replicas of each
language and their part of the traffic, and the autoscaling is calculated.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import simpy
from pydantic import Field, TypeAdapter

from benchmarks import driver, report
from benchmarks.simulate.scenario import (
    DAY_S,
    HOUR_S,
    DayEntry,
    Scenario,
    StretchEntry,
    change,
    read_scenario,
)

#: The share of a request's time that a forecast may use up, as in the gateway.
_MARGIN = 0.8
#: The pause before a refused client asks again.
_PAUSE_S = 1.0
#: Differences of times are not exact.
_EPSILON_S = 1e-6
#: Looks at the traffic within a delay.
_LOOKS = 8
#: Halvings until the rate of a replica is known well enough.
_STEPS = 8
#: Requests of each look for it, and the seconds that it lasts at least.
_LOOK_REQUESTS, _LOOK_S = 5000, 5.0
#: The tolerance between simulated and measured requests/s and mean batches.
TOLERANCE = 0.15
#: A simulation is cheap: it lasts this much longer than the load that it is compared with.
_LONGER = 20


@dataclass(frozen=True)
class LanguagePart:
    """The part of a simulation for one language."""

    language: str
    #: Requests/s; 0 if clients ask.
    rate: float
    #: Its share of what clients ask.
    share: float
    replicas: int
    #: All replicas that are paid for, with those that start or end.
    held: int
    #: Replicas that each simulated one stands for.
    factor: float = 1.0


@dataclass
class Tally:
    """The fates of a language's requests within the time that counts."""

    part: LanguagePart
    #: Seconds that counted, and the seconds of the whole that each of them stands for.
    seconds: float
    span: float = 1.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    #: Not taken: the queue was full, or the answer would have come too late.
    refused: int = 0
    #: Taken, and not answered in time.
    late: int = 0
    batches: int = 0
    rows: int = 0
    #: Seconds of batches.
    busy_s: float = 0.0

    @property
    def weight(self) -> float:
        """The number of requests of the whole that one of this tally stands for."""
        return self.part.factor * self.span


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

    tally: Tally
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
        period: StretchEntry | DayEntry,
        *,
        seed: str,
        span: float = 1.0,
    ) -> None:
        self._scenario = scenario
        self._from, self._until = period.settle_s, period.settle_s + period.seconds
        self._rng = random.Random(seed)
        self._env = simpy.Environment()
        self._gateway_free = [0.0] * scenario.gateways.processes
        self._gateway, self._ingress = itertools.count(), itertools.count()
        self._timeout_s = scenario.traffic.timeout_s
        self._wait_s = scenario.replica.max_batch_delay / 1000
        self._batch_size = scenario.batch_size
        #: Seconds of a batch, by its rows.
        self._table = scenario.tabulate()
        self._sigma = math.sqrt(math.log1p(scenario.traffic.tokens_spread**2))
        self._is_closed = scenario.traffic.clients is not None
        tallies = (Tally(part, period.seconds, span) for part in parts)
        self._pools = list(map(self._make_pool, tallies))

    def _make_pool(self, tally: Tally) -> _Pool:
        workers = self._scenario.replica.workers
        ingresses = range(self._scenario.gateways.ingresses)
        replicas = [
            _Replica(tally, workers, [0 for _ in ingresses])
            for _ in range(tally.part.replicas)
        ]
        return _Pool(tally, replicas, [self._rng.randrange(1 << 16) for _ in ingresses])

    def run(self) -> list[Tally]:
        """A tally per part: what ended in the time that counts."""
        for pool in self._pools:
            if pool.tally.part.rate:
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
        while True:
            yield self._env.timeout(self._rng.expovariate(pool.tally.part.rate))
            self._enter(pool)

    def _ask_again(self, delay_s: float) -> None:
        shares = [pool.tally.part.share for pool in self._pools]
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
        # Lengths that differ have a logarithmic normal distribution with the mean 1.
        sigma, draw = self._sigma, self._rng.lognormvariate
        length = draw(-(sigma**2) / 2, sigma) if sigma else 1.0
        replica.waiting.append(_Row(asked_at, now, length, ingress))
        replica.connections[ingress] += 1
        replica.ongoing += 1
        self._advance(replica)

    # From a replica to the client.

    def _advance(self, replica: _Replica) -> None:
        """Starts all batches that can leave, and waits for the next one: a batch leaves
        when it is full, or when the window has ended that its first row began."""
        while replica.waiting and replica.idle:
            leaves_at = replica.waiting[0].came_at + self._wait_s
            is_full = len(replica.waiting) >= self._batch_size
            if not is_full and leaves_at > self._env.now + _EPSILON_S:
                if replica.wakes_at != leaves_at:
                    replica.wakes_at = leaves_at
                    delay_s = leaves_at - self._env.now
                    self._after(delay_s, lambda: self._advance(replica))
                return
            self._start_batch(replica)

    def _start_batch(self, replica: _Replica) -> None:
        """Rows whose time is over are in the batch, and take none."""
        now, tally = self._env.now, replica.tally
        count = min(self._batch_size, len(replica.waiting))
        batch = [replica.waiting.popleft() for _ in range(count)]
        lengths = [r.length for r in batch if r.asked_at > now - self._timeout_s]
        rows = len(lengths)
        seconds = self._table[rows] * sum(lengths) / rows if rows else 0.0
        replica.idle -= 1
        counted_s = min(now + seconds, self._until) - max(now, self._from)
        tally.busy_s += max(0.0, counted_s)
        if self._counts:
            tally.batches += 1
            tally.rows += count
        self._after(seconds, lambda: self._finish(replica, batch))

    def _finish(self, replica: _Replica, batch: list[_Row]) -> None:
        replica.idle += 1
        replica.ongoing -= len(batch)
        for row in batch:
            replica.connections[row.ingress] -= 1
        if self._counts:
            times = [self._env.now - row.asked_at for row in batch]
            good = [time for time in times if time <= self._timeout_s]
            replica.tally.latencies_s.extend(good)
            replica.tally.late += len(times) - len(good)
        if self._is_closed:
            for _ in batch:
                self._ask_again(0.0)
        self._advance(replica)


class Planner:
    """Finds how many replicas each language has at each moment of a day."""

    def __init__(self, scenario: Scenario, day: DayEntry) -> None:
        self._scenario = scenario
        self._day = day
        #: More replicas share their load a little better.
        self._find_rate = cache(partial(find_rate, scenario))

    def plan(self, number: int) -> tuple[Scenario, list[LanguagePart]]:
        """The moment with this number, at the middle of its part of the day, with as many
        gateways as its parts need."""
        at_s = (number + 0.5) * DAY_S / self._day.moments
        traffic, gateways = self._scenario.traffic, self._scenario.gateways
        rate = traffic.find_rate(at_s)
        parts = []
        for language, share in traffic.find_shares().items():
            ready, held = self._find_replicas(share, at_s)
            simulated = min(ready, self._day.most_replicas)
            factor = ready / simulated
            own = rate * share / factor
            parts.append(LanguagePart(language, own, share, simulated, held, factor))
        kept = sum(part.rate for part in parts) / rate if rate else 1.0
        processes = math.ceil(round(gateways.processes * kept, 6))
        gateways = gateways.model_copy(update={"processes": processes})
        return self._scenario.model_copy(update={"gateways": gateways}), parts

    def _find_replicas(self, share: float, at_s: float) -> tuple[int, int]:
        """Replicas that answer and those that are paid for. Serve keeps what was wanted
        within a delay, and a new replica answers when it has started."""
        scaling = self._scenario.autoscaling
        seen_s = at_s - scaling.look_back_period_s / 2
        wanted_s = seen_s - scaling.upscale_delay_s
        started_s = wanted_s - self._scenario.replica.start_s
        kept_s = min(seen_s - scaling.downscale_delay_s, started_s)
        ready = self._count_wanted(share, kept_s, started_s)
        return ready, self._count_wanted(share, kept_s, wanted_s)

    def _count_wanted(self, share: float, since_s: float, until_s: float) -> int:
        """Count the replicas that Serve wants for the highest traffic between two times."""
        times = np.linspace(since_s, until_s, _LOOKS + 1)
        rate = share * max(map(self._scenario.traffic.find_rate, times))
        count, most = self._scenario.replicas
        while count < most:
            each = self._find_rate(min(count, self._day.most_replicas))
            if rate <= count * each:
                break
            count = max(count + 1, math.floor(rate / each))
        return min(count, most)


def find_rate(scenario: Scenario, replicas: int) -> float:
    """The requests/s of one of `replicas` at which it has `target_ongoing_requests`."""
    low = 0.0
    high = scenario.batch_size / scenario.tabulate()[-1] * scenario.replica.workers
    gateways = scenario.gateways.model_copy(update={"request_ms": 0.0})
    scenario = scenario.model_copy(update={"gateways": gateways})
    for _ in range(_STEPS):
        middle = (low + high) / 2
        seconds = max(_LOOK_S, _LOOK_REQUESTS / (middle * replicas))
        part = LanguagePart("", middle * replicas, 1.0, replicas, replicas)
        period = StretchEntry(seconds=seconds, settle_s=_LOOK_S)
        (tally,) = Simulation(scenario, [part], period, seed="rate").run()
        # Little's law: requests there are arrivals times the time that each stays.
        ongoing = sum(tally.latencies_s) / seconds / replicas
        is_too_much = tally.refused or tally.late
        if is_too_much or ongoing > scenario.target_ongoing_requests:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def run(scenario: Scenario, seed: int) -> list[LanguageOutcome]:
    """Simulate a scenario. The first outcome is that of all languages."""
    day, stretch, traffic = scenario.day, scenario.stretch, scenario.traffic
    if day is None:
        count, rate = (
            scenario.replicas[0],
            traffic.find_rate(stretch.from_hour * HOUR_S),
        )
        parts = [
            LanguagePart(language, rate * share, share, count, count)
            for language, share in traffic.find_shares().items()
        ]
        simulation = Simulation(scenario, parts, stretch, seed=str(seed))
        return summarize(scenario, simulation.run())
    planner, span = Planner(scenario, day), DAY_S / day.moments / day.seconds
    tallies: list[Tally] = []
    for number in range(day.moments):
        moment, parts = planner.plan(number)
        driver.say(f"moment {number + 1} of {day.moments}")
        simulation = Simulation(moment, parts, day, seed=f"{seed} {number}", span=span)
        tallies += simulation.run()
    return summarize(scenario, tallies)


@dataclass(frozen=True)
class LanguageOutcome:
    """The figures of a language, or of all, and a row of the table. None where nothing was
    counted."""

    load: str
    language: str
    #: Answered in time.
    requests_per_s: float
    latencies: report.Latencies
    mean_batch: float | None
    #: Shares of all requests that ended.
    refused: float
    late: float
    #: The average and the most, with those that start or end.
    replicas: float
    most_replicas: int
    #: The share of the time that works had a batch.
    utilisation: float | None
    gpu_hours: float
    #: Per million answers, with the gateways' share for all languages.
    cost_per_million: float | None


def summarize(scenario: Scenario, tallies: Sequence[Tally]) -> list[LanguageOutcome]:
    """Return all languages together, then each one if there are several."""
    languages = report.group(tallies, lambda tally: tally.part.language)
    seconds = sum(t.seconds * t.span for t in next(iter(languages.values())))
    price, gpus = scenario.price, scenario.replica.gpus
    replica_hour = gpus * price.gpu_hour + price.replica_hour
    gateways_hour = scenario.gateways.processes * price.gateway_hour

    def describe(name: str, own: Sequence[Tally]) -> LanguageOutcome:
        def add(read: Callable[[Tally], float], some: Sequence[Tally] = own) -> float:
            return float(sum(read(tally) * tally.weight for tally in some))

        answered, of_all = (
            add(lambda t: len(t.latencies_s), s) for s in (own, tallies)
        )
        refused, late = add(lambda tally: tally.refused), add(lambda tally: tally.late)
        batches, ended = add(lambda tally: tally.batches), answered + refused + late
        works_s = add(lambda t: t.seconds * t.part.replicas) * scenario.replica.workers
        held_s = sum(tally.part.held * tally.seconds * tally.span for tally in own)
        held = report.group(own, lambda tally: tally.part.language).values()
        # The gateways' cost is shared by all answers.
        cost = held_s / HOUR_S * replica_hour / (answered or math.inf)
        cost += gateways_hour * seconds / HOUR_S / (of_all or math.inf)
        return LanguageOutcome(
            load="",
            language=name,
            requests_per_s=answered / seconds,
            latencies=report.summarize_latencies(
                np.concatenate([np.frombuffer(t.latencies_s) for t in own]).tolist(),
                [tally.weight for tally in own for _ in tally.latencies_s],
            ),
            mean_batch=add(lambda tally: tally.rows) / batches if batches else None,
            refused=refused / ended if ended else 0.0,
            late=late / ended if ended else 0.0,
            replicas=held_s / seconds,
            most_replicas=sum(max(t.part.held for t in some) for some in held),
            utilisation=add(lambda tally: tally.busy_s) / works_s if works_s else None,
            gpu_hours=held_s / HOUR_S * gpus,
            cost_per_million=cost * 1e6 if answered else None,
        )

    named = {"all": tallies, **(languages if len(languages) > 1 else {})}
    return [describe(name, own) for name, own in named.items()]


@dataclass(frozen=True)
class MeasuredLoad:
    """A load and its figures."""

    loop: Literal["open", "closed"]
    #: Clients of a closed loop, requests/s of an open one.
    level: Annotated[float, Field(gt=0)]
    requests_per_s: float = 0.0
    latencies: report.Latencies = report.Latencies(None, None, None)
    mean_batch: float | None = None
    replicas: Annotated[int, Field(ge=1)] | None = None

    @property
    def name(self) -> str:
        unit = "requests/s" if self.loop == "open" else "clients"
        among = f", {self.replicas} replicas" if self.replicas else ""
        return f"{self.level:g} {unit}{among}"

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this load's traffic and replicas."""
        is_open, count = self.loop == "open", self.replicas
        update = {
            "requests_per_s": self.level if is_open else None,
            "clients": None if is_open else int(self.level),
            "wave": 0.0,
        }
        traffic = scenario.traffic.model_copy(update=update)
        replicas = (count, count) if count else scenario.replicas
        return scenario.model_copy(update={"traffic": traffic, "replicas": replicas})


_LOADS = TypeAdapter(Annotated[list[MeasuredLoad], Field(min_length=1)])
#: The figures that `--check` compares; the first two must agree.
_COMPARED = ("requests/s", "mean batch", "p50 ms", "p99 ms")


def answer(
    scenario: Path,
    *,
    setting: list[str] | None,
    clients: str,
    rates: str,
    check: str,
    seed: int,
) -> report.Findings:
    """Latencies, batches, refusals, GPU hours and cost of a scenario, without any GPU.

    A scenario with `day` is represented by moments of the day with a part of the replicas;
    any other is simulated as it is. With --check the command fails if requests/s or the
    mean batch differ by more than 15 %.
    """
    plan = change(read_scenario(scenario), setting or ())
    if check and plan.day:
        raise ValueError("--check: expected a scenario without `day`")
    if check:
        longer = plan.stretch.seconds * _LONGER
        stretch = plan.stretch.model_copy(update={"seconds": longer})
        plan = plan.model_copy(update={"stretch": stretch})
        loads = read_measured(Path(check))
        return compare([(load, run(load.apply(plan), 0)[0]) for load in loads])
    numbers = driver.read_numbers(clients) if clients else []
    loads = [MeasuredLoad("closed", number) for number in numbers]
    loads += [MeasuredLoad("open", rate) for rate in driver.read_rates(rates)]
    named = [(load.name, load.apply(plan)) for load in loads] or [("", plan)]
    outcomes = [
        replace(outcome, load=name) for name, one in named for outcome in run(one, seed)
    ]
    return report.Findings(report.tabulate(outcomes), outcomes)


def read_measured(path: Path) -> list[MeasuredLoad]:
    """Read the loads of a benchmark's file. Raises ValueError."""
    try:
        results = json.loads(path.read_bytes())["results"]
        if isinstance(results, list):  # as `ingress` writes them
            counts = {"mean_batch": "batch_fill", "replicas": "machines"}
            loads = [
                each["load"] | {key: each.get(name) for key, name in counts.items()}
                for each in results
            ]
        else:
            loads = results["loads"]
        return _LOADS.validate_python(loads)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: expected what `benchmarks stack` or `ingress` writes: {error}"
        ) from error


def compare(pairs: Sequence[tuple[MeasuredLoad, LanguageOutcome]]) -> report.Findings:
    """Compare each load as it is simulated with what was measured, and name what is far
    apart."""
    cases: dict[str, dict[str, list[Any]]] = {}
    for measured, outcome in pairs:
        case = cases.setdefault(measured.name, {"simulated": [], "measured": []})
        case["simulated"].append(outcome)
        case["measured"].append(measured)
    found = report.compare_turns(cases, _COMPARED, case="load")
    misses = [
        f"{relation['case']}: {name}, simulated / measured: {ratio}"
        for relation in found.results["relations"]
        for name in _COMPARED[:2]
        if (ratio := relation["figures"][name])
        and max(1 - ratio.low, ratio.high - 1) > TOLERANCE
    ]
    results = [
        {"measured": measured, "simulated": outcome} for measured, outcome in pairs
    ]
    remarks = misses or ["within 15 %"]
    return replace(found, results=results, remarks=remarks, has_failed=bool(misses))
