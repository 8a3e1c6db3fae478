"""`python -m benchmarks simulate`: predicts the figures of gateways and replicas before you
rent them.

Requests arrive at the gateways, wait at a replica of their language, and are answered in
batches. A day of a large cluster is represented by moments: each is simulated with a few
replicas of each language and their share of the traffic; the autoscaling is calculated.
"""

from __future__ import annotations

import itertools
import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pydantic
import simpy

from benchmarks import driver, report
from benchmarks.driver import Positive
from catalog.sections import Shape

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
#: The share of a request's remaining time that a forecast may take, as in the gateway.
_MARGIN = 0.8
#: The tolerance for rounding errors of time differences.
_EPSILON_S = 1e-6
#: Samples of the traffic within a delay.
_LOOKS = 8
#: The precision with which the rate of a replica is found.
_PRECISION = 1 / 256

Natural = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False, strict=False)]
Count = Annotated[int, pydantic.Field(ge=1)]


class TrafficEntry(Shape):
    """The simulated traffic. Each request is one sentence."""

    #: Requests/s of all languages, averaged over a day; arrivals are random.
    requests_per_s: Positive
    #: Language n has 1 / n**zipf times the traffic of the first.
    languages: Count = 1
    zipf: Natural = 1.0
    #: The height of a day's peak above the mean, and of its trough below, divided by the mean.
    wave: Annotated[float, pydantic.Field(ge=0, lt=1, strict=False)] = 0.0
    peak_hour: Annotated[float, pydantic.Field(ge=0, lt=24, strict=False)] = 14.0
    #: The standard deviation of a sentence's length, divided by the mean.
    tokens_spread: Natural = 0.0
    #: The time limit of a request, which is refused if its answer would be too late.
    timeout_s: Positive = 30.0

    def find_shares(self) -> dict[str, float]:
        """Return each language's share of the traffic, the largest first."""
        weights = {n: n**-self.zipf for n in range(1, self.languages + 1)}
        total = sum(weights.values())
        return {f"language-{n}": weight / total for n, weight in weights.items()}

    def find_rate(self, at_s: float) -> float:
        """Return the requests/s of all languages at a time in seconds after midnight."""
        phase = 2 * math.pi * (at_s - self.peak_hour * HOUR_S) / DAY_S
        return self.requests_per_s * (1 + self.wave * math.cos(phase))


class GatewayEntry(Shape):
    """The processes in front of the replicas."""

    processes: Count = 1
    #: CPU time of a request, during which its process is busy.
    request_ms: Natural = 0.0
    #: Load balancers. Each chooses the replica to which it has the fewest open requests
    #: itself, as HAProxy does.
    ingresses: Count = 1
    #: The price of a process per hour, in any currency.
    hour_price: Natural = 0.0


class ReplicaEntry(Shape):
    """One replica. Its keys for batches are those of the map."""

    #: Milliseconds of a batch by its number of rows, as `python -m benchmarks study` measures.
    ms: Annotated[Mapping[Count, Positive], pydantic.Field(min_length=1)]
    batch_size: Count = 64
    max_batch_delay: Natural = 100.0
    queue_size: Count = 1000
    #: From the decision to add a replica to its first answer.
    start_s: Natural = 60.0
    #: The price of its GPU per hour.
    hour_price: Natural = 0.0

    def tabulate(self) -> list[float]:
        """Return the seconds of a batch by its number of rows, from 0. Sizes above the measured
        ones are extrapolated from the last two; those below take the time of the first."""
        sizes, times = map(np.array, zip(*sorted(self.ms.items()), strict=True))
        rows = np.arange(1, self.batch_size + 1)
        ms = np.interp(rows, sizes, times)
        if len(sizes) > 1:
            slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
            ms += np.maximum(rows - sizes[-1], 0) * slope
        return [0.0, *(ms / 1000).tolist()]


class StretchEntry(Shape):
    """The simulated time: `seconds` that count, after `settle_s` that do not."""

    seconds: Positive = 600.0
    settle_s: Natural = 60.0


class DayEntry(StretchEntry):
    """A day of a cluster too large to be simulated whole, and its autoscaling rules, with
    Serve's names, and its defaults for the periods."""

    #: Evenly spaced moments that represent the day.
    moments: Count = 24
    #: The most replicas to simulate per language, with their share of the traffic.
    most_replicas: Count = 4
    #: The fewest and the most replicas of a language.
    replicas: Annotated[tuple[Count, Count], pydantic.Field(strict=False)]
    #: The target number of requests per replica, including queued ones.
    target_ongoing_requests: Count = 64
    upscale_delay_s: Natural = 30.0
    downscale_delay_s: Natural = 600.0
    look_back_period_s: Positive = 30.0


class Scenario(Shape):
    """The input of a simulation: traffic, gateways and replicas."""

    traffic: TrafficEntry
    replica: ReplicaEntry
    #: Replicas per language; a day calculates them instead.
    replicas: Count = 1
    gateways: GatewayEntry = GatewayEntry()
    stretch: StretchEntry = StretchEntry()
    day: DayEntry | None = None


def change(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    """Return the scenario with changes such as `traffic.languages=100`. Raises ValueError."""
    content = scenario.model_dump(exclude_unset=True)
    for place, value in driver.read_settings(texts).items():
        parent, _, key = place.rpartition(".")
        entry = content.get(parent) if parent else content
        if not isinstance(entry, dict):
            entry = content[parent] = {}
        entry[key] = value
    return Scenario.model_validate(content)


@dataclass
class LanguagePart:
    """One language's part of a simulation, and the results of its requests that count."""

    language: str
    #: Requests/s.
    rate: float
    replicas: int
    #: All replicas that are paid for, including those that are starting or stopping.
    held: int
    #: The number of replicas that each simulated one represents.
    factor: float = 1.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    #: Requests refused because the queue was full or the answer would have been too late.
    refused: int = 0
    #: Requests accepted but not answered in time.
    late: int = 0
    batches: int = 0
    rows: int = 0
    #: Seconds spent on batches.
    busy_s: float = 0.0


class _Row(NamedTuple):
    """One sentence in a replica's queue."""

    asked_at: float
    #: The time of its arrival at the replica.
    came_at: float
    #: Its length divided by the mean.
    length: float
    ingress: int


@dataclass(eq=False, slots=True)
class _Replica:
    """A replica with its queue."""

    part: LanguagePart
    #: Its requests, including those in the current batch, by the ingress that sent them.
    connections: list[int]
    is_busy: bool = False
    waiting: deque[_Row] = field(default_factory=deque)
    #: The latest start of the batch that is being filled.
    wakes_at: float = -1.0


class Simulation:
    """A simulation of all queues on SimPy's clock. The same seed produces the same figures."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Sequence[LanguagePart],
        period: StretchEntry,
        seed: str,
    ) -> None:
        self._scenario, self._parts = scenario, parts
        self._from = period.settle_s
        self._until = period.settle_s + period.seconds
        self._rng = random.Random(seed)
        self._env = simpy.Environment()
        self._gateway_free = [0.0] * scenario.gateways.processes
        self._numbers = itertools.count()
        self._timeout_s = scenario.traffic.timeout_s
        self._wait_s = scenario.replica.max_batch_delay / 1000
        self._batch_size = scenario.replica.batch_size
        #: Seconds of a batch by its number of rows.
        self._table = scenario.replica.tabulate()
        self._sigma = math.sqrt(math.log1p(scenario.traffic.tokens_spread**2))
        self._replicas = {
            part.language: [
                _Replica(part, [0] * scenario.gateways.ingresses)
                for _ in range(part.replicas)
            ]
            for part in parts
        }

    def run(self) -> None:
        """Run the simulation, and count the requests that end after `settle_s`."""
        for part in self._parts:
            self._env.process(self._arrive(part))
        self._env.run(until=self._until)

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._env.timeout(delay_s).callbacks.append(lambda _: act())

    @property
    def _counts(self) -> bool:
        return self._env.now >= self._from

    # From a client to a replica.

    def _arrive(self, part: LanguagePart) -> Generator[simpy.Event, None, None]:
        while True:
            yield self._env.timeout(self._rng.expovariate(part.rate))
            self._enter(part)

    def _enter(self, part: LanguagePart) -> None:
        """Send a request to the next gateway process; each handles one at a time."""
        now = self._env.now
        number = next(self._numbers)
        free = self._gateway_free
        place = number % len(free)
        free[place] = max(free[place], now) + self._scenario.gateways.request_ms / 1000
        self._after(free[place] - now, lambda: self._route(part, number, now))

    def _route(self, part: LanguagePart, number: int, asked_at: float) -> None:
        """Queue a request, or refuse it if the queue is full or its answer would be late."""
        now = self._env.now
        turn, ingress = divmod(number, self._scenario.gateways.ingresses)
        replicas = self._replicas[part.language]
        # Replicas with equally few requests are chosen in rotation.
        _, _, replica = min(
            (one.connections[ingress], (place - turn) % len(replicas), one)
            for place, one in enumerate(replicas)
        )
        batches = sum(replica.connections) / self._batch_size + 1
        forecast_s = self._wait_s + batches * self._table[-1]
        is_full = len(replica.waiting) >= self._scenario.replica.queue_size
        if is_full or forecast_s > _MARGIN * (asked_at + self._timeout_s - now):
            part.refused += self._counts
            return
        # Lengths have a log-normal distribution with the mean 1.
        sigma, draw = self._sigma, self._rng.lognormvariate
        length = draw(-(sigma**2) / 2, sigma) if sigma else 1.0
        replica.waiting.append(_Row(asked_at, now, length, ingress))
        replica.connections[ingress] += 1
        self._advance(replica)

    # From a replica to the client.

    def _advance(self, replica: _Replica) -> None:
        """Start the next batch if it is full, or if the time window that began with its first
        row has ended; otherwise wait for that."""
        if replica.is_busy or not replica.waiting:
            return
        now = self._env.now
        leaves_at = replica.waiting[0].came_at + self._wait_s
        if len(replica.waiting) >= self._batch_size or leaves_at <= now + _EPSILON_S:
            self._start_batch(replica)
        elif replica.wakes_at != leaves_at:
            replica.wakes_at = leaves_at
            self._after(leaves_at - now, lambda: self._advance(replica))

    def _start_batch(self, replica: _Replica) -> None:
        """Start a batch. Expired rows are in it, but add nothing to its time."""
        now, part = self._env.now, replica.part
        count = min(self._batch_size, len(replica.waiting))
        batch = [replica.waiting.popleft() for _ in range(count)]
        lengths = [r.length for r in batch if r.asked_at > now - self._timeout_s]
        rows = len(lengths)
        seconds = self._table[rows] * sum(lengths) / rows if rows else 0.0
        replica.is_busy = True
        counted_s = min(now + seconds, self._until) - max(now, self._from)
        part.busy_s += max(0.0, counted_s)
        if self._counts:
            part.batches += 1
            part.rows += count
        self._after(seconds, lambda: self._finish(replica, batch))

    def _finish(self, replica: _Replica, batch: list[_Row]) -> None:
        replica.is_busy = False
        for row in batch:
            replica.connections[row.ingress] -= 1
        if self._counts:
            times = [self._env.now - row.asked_at for row in batch]
            good = [time for time in times if time <= self._timeout_s]
            replica.part.latencies_s.extend(good)
            replica.part.late += len(times) - len(good)
        self._advance(replica)


class Planner:
    """The autoscaling of a day: the number of replicas of each language at each moment."""

    def __init__(self, scenario: Scenario, day: DayEntry) -> None:
        self._scenario, self._day = scenario, day
        #: The requests/s of a replica at which it has `target_ongoing_requests`.
        self._rate = find_rate(scenario, day)

    def plan(self, number: int) -> tuple[Scenario, list[LanguagePart]]:
        """Return the scenario and the parts of a moment, which is the middle of its section of
        the day. The gateway processes are scaled down like the traffic."""
        at_s = (number + 0.5) * DAY_S / self._day.moments
        traffic, gateways = self._scenario.traffic, self._scenario.gateways
        rate = traffic.find_rate(at_s)
        parts = []
        for language, share in traffic.find_shares().items():
            ready, held = self._find_replicas(share, at_s)
            simulated = min(ready, self._day.most_replicas)
            factor = ready / simulated
            own = rate * share / factor
            parts.append(LanguagePart(language, own, simulated, held, factor))
        kept = sum(part.rate for part in parts) / rate
        processes = math.ceil(round(gateways.processes * kept, 6))
        gateways = gateways.model_copy(update={"processes": processes})
        return self._scenario.model_copy(update={"gateways": gateways}), parts

    def _find_replicas(self, share: float, at_s: float) -> tuple[int, int]:
        """Return the number of replicas that answer, and of those that are paid for. Serve
        keeps the most required within a delay, and a new replica answers after its start."""
        seen_s = at_s - self._day.look_back_period_s / 2
        wanted_s = seen_s - self._day.upscale_delay_s
        started_s = wanted_s - self._scenario.replica.start_s
        kept_s = min(seen_s - self._day.downscale_delay_s, started_s)
        ready = self._count_wanted(share, kept_s, started_s)
        return ready, self._count_wanted(share, kept_s, wanted_s)

    def _count_wanted(self, share: float, since_s: float, until_s: float) -> int:
        """Return the number of replicas that Serve requires for the peak between two times."""
        times = np.linspace(since_s, until_s, _LOOKS + 1)
        rate = share * max(map(self._scenario.traffic.find_rate, times))
        least, most = self._day.replicas
        return max(least, min(most, math.ceil(rate / self._rate)))


def find_rate(scenario: Scenario, day: DayEntry) -> float:
    """Return the requests/s of a replica at which it has `target_ongoing_requests`."""
    scenario = scenario.model_copy(update={"gateways": GatewayEntry()})
    low, count = 0.0, day.most_replicas
    high = scenario.replica.batch_size / scenario.replica.tabulate()[-1]
    while high - low > _PRECISION * high:
        rate = (low + high) / 2
        part = LanguagePart("", rate * count, count, count)
        Simulation(scenario, [part], day, "rate").run()
        # Little's law: concurrent requests are the arrival rate times the latency of each.
        ongoing = sum(part.latencies_s) / day.seconds / count
        if part.refused or part.late or ongoing > day.target_ongoing_requests:
            high = rate
        else:
            low = rate
    return low


def run(scenario: Scenario, seed: int) -> list[LanguageOutcome]:
    """Simulate a scenario. The first outcome is for all languages together."""
    day, traffic, count = scenario.day, scenario.traffic, scenario.replicas
    if day is None:
        parts = [
            LanguagePart(language, traffic.requests_per_s * share, count, count)
            for language, share in traffic.find_shares().items()
        ]
        Simulation(scenario, parts, scenario.stretch, str(seed)).run()
        return summarize(scenario, parts, scenario.stretch.seconds)
    planner = Planner(scenario, day)
    parts = []
    for number in range(day.moments):
        driver.say(f"moment {number + 1} of {day.moments}")
        moment, some = planner.plan(number)
        Simulation(moment, some, day, f"{seed} {number}").run()
        parts += some
    return summarize(scenario, parts, day.seconds)


@dataclass(frozen=True)
class LanguageOutcome:
    """The figures of one or all languages: a row of the table. None if nothing was counted."""

    language: str
    #: Requests answered in time.
    requests_per_s: float
    latencies: report.Latencies
    #: The mean number of rows in a batch.
    batch_fill: float | None
    #: Shares of all finished requests, including refused ones.
    refused: float
    late: float
    #: The mean and the maximum, including replicas that are starting or stopping.
    replicas: float
    most_replicas: int
    #: The share of the replicas' time spent on batches.
    utilisation: float
    #: The price of a million answers; the cost of the gateways is the same for every answer.
    cost_per_million: float | None


def summarize(
    scenario: Scenario, parts: Sequence[LanguagePart], seconds: float
) -> list[LanguageOutcome]:
    """Return the outcome of all languages together, then of each one if there are several. Each
    part counted requests for `seconds`."""
    languages = report.group(parts, lambda part: part.language)
    moments = len(next(iter(languages.values())))
    millions_per_hour = HOUR_S / 1e6 / seconds / moments
    gateways_price = scenario.gateways.processes * scenario.gateways.hour_price
    all_answered = sum(len(part.latencies_s) * part.factor for part in parts)

    def describe(name: str, own: Sequence[LanguagePart]) -> LanguageOutcome:
        def add(read: Callable[[LanguagePart], float]) -> float:
            return float(sum(read(part) * part.factor for part in own))

        answered = add(lambda part: len(part.latencies_s))
        refused, late = add(lambda part: part.refused), add(lambda part: part.late)
        batches = add(lambda part: part.batches)
        ended = answered + refused + late
        held = report.group(own, lambda part: part.language).values()
        replicas = sum(part.held for part in own) / moments
        price = replicas * scenario.replica.hour_price
        price += gateways_price * answered / (all_answered or 1)
        return LanguageOutcome(
            language=name,
            requests_per_s=answered / seconds / moments,
            latencies=report.summarize_latencies(
                np.concatenate([np.frombuffer(t.latencies_s) for t in own]).tolist(),
                [part.factor for part in own for _ in part.latencies_s],
            ),
            batch_fill=add(lambda part: part.rows) / batches if batches else None,
            refused=refused / ended if ended else 0.0,
            late=late / ended if ended else 0.0,
            replicas=replicas,
            most_replicas=sum(max(part.held for part in some) for some in held),
            utilisation=add(lambda part: part.busy_s)
            / add(lambda part: seconds * part.replicas),
            cost_per_million=price / answered / millions_per_hour if answered else None,
        )

    named = {"all": parts, **(languages if len(languages) > 1 else {})}
    return [describe(name, own) for name, own in named.items()]


def answer(scenario: Path, *, setting: list[str] | None, seed: int) -> report.Findings:
    """Simulate latencies, batches, refusals, replicas and cost of a scenario, without a GPU.

    A scenario with `day` is represented by moments of the day with a part of the replicas;
    any other is simulated whole.
    """
    plan = change(driver.load_plan(scenario, Scenario), setting or ())
    outcomes = run(plan, seed)
    return report.Findings(report.tabulate(outcomes), outcomes)
