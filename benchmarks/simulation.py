"""`python -m benchmarks simulate`: the figures of gateways and replicas, before anybody rents
them.

Requests come to the gateways, go to a replica of their language, and are answered by batches. A
day of a large cluster is made of moments: each is simulated with a few replicas of each
language and their part of the traffic, and the autoscaling is calculated.
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

Natural = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False, strict=False)]
Count = Annotated[int, pydantic.Field(ge=1)]


class TrafficEntry(Shape):
    """The traffic: requests and their times. A request is one sentence."""

    #: Requests/s of all languages, the mean of a day; they come at random.
    requests_per_s: Positive | None = None
    #: Instead: clients, each of which asks again as soon as it has its answer.
    clients: Count | None = None
    #: Language n has 1 / n to the power of `zipf` of the first one's traffic.
    languages: Count = 1
    zipf: Natural = 1.0
    #: The height of a day's peak above the mean, and of the trough below it.
    wave: Annotated[float, pydantic.Field(ge=0, lt=1, strict=False)] = 0.0
    peak_hour: Annotated[float, pydantic.Field(ge=0, lt=24, strict=False)] = 14.0
    #: The standard deviation of a sentence's length, divided by the mean.
    tokens_spread: Natural = 0.0
    #: A request that cannot be answered in time is refused.
    timeout_s: Positive = 30.0

    @pydantic.model_validator(mode="after")
    def _check_kind(self) -> TrafficEntry:
        if (self.requests_per_s is None) == (self.clients is None):
            raise ValueError("expected either requests_per_s or clients")
        return self

    def find_shares(self) -> dict[str, float]:
        """Each language's share of the traffic, the largest first."""
        weights = {n: n**-self.zipf for n in range(1, self.languages + 1)}
        total = sum(weights.values())
        return {f"language-{n}": weight / total for n, weight in weights.items()}

    def find_rate(self, at_s: float) -> float:
        """Requests/s of all languages, so long after midnight."""
        phase = 2 * math.pi * (at_s - self.peak_hour * HOUR_S) / DAY_S
        return (self.requests_per_s or 0.0) * (1 + self.wave * math.cos(phase))


class GatewayEntry(Shape):
    """The processes in front of the replicas."""

    processes: Count = 1
    #: CPU of a request, which keeps its process busy.
    request_ms: Natural = 0.0
    #: Programs that choose the replica with the fewest requests that it has sent itself, as
    #: HAProxy does.
    ingresses: Count = 1
    #: The price of a process for an hour, in any currency.
    hour_price: Natural = 0.0


class ReplicaEntry(Shape):
    """One replica. The keys of batches are those of the map."""

    #: Milliseconds of a batch, by its rows, as `python -m benchmarks study` finds them.
    ms: Annotated[Mapping[Count, Positive], pydantic.Field(min_length=1)]
    batch_size: Count = 64
    max_batch_delay: Natural = 100.0
    queue_size: Count = 1000
    #: From the wish for a replica to its first answer.
    start_s: Natural = 60.0
    #: The price of its GPU for an hour.
    hour_price: Natural = 0.0

    def tabulate(self) -> list[float]:
        """Return the seconds of a batch, by its rows from 0. Beyond the measured sizes, the
        line of the last two goes on, and below them the first one's time holds."""
        sizes, times = map(np.array, zip(*sorted(self.ms.items()), strict=True))
        rows = np.arange(1, self.batch_size + 1)
        ms = np.interp(rows, sizes, times)
        if len(sizes) > 1:
            slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
            ms += np.maximum(rows - sizes[-1], 0) * slope
        return [0.0, *(ms / 1000).tolist()]


class StretchEntry(Shape):
    """The time that is simulated: seconds that count, after `settle_s` that do not."""

    seconds: Positive = 600.0
    settle_s: Natural = 60.0


class DayEntry(StretchEntry):
    """A day of a cluster that is too large to be simulated as it is, and the rules by which
    replicas come and go, with Serve's names and defaults."""

    #: Moments, evenly spread, that stand for the day.
    moments: Count = 24
    #: A language's replicas are represented by this many, with their part of the traffic.
    most_replicas: Count = 4
    #: The fewest and the most of a language.
    replicas: Annotated[tuple[Count, Count], pydantic.Field(strict=False)]
    #: Requests that a replica should have, those included that wait for it.
    target_ongoing_requests: Count = 64
    upscale_delay_s: Natural = 30.0
    downscale_delay_s: Natural = 600.0
    look_back_period_s: Positive = 30.0


class Scenario(Shape):
    """The subject of a simulation."""

    traffic: TrafficEntry
    replica: ReplicaEntry
    #: The number for each language; a day has its own.
    replicas: Count = 1
    gateways: GatewayEntry = GatewayEntry()
    stretch: StretchEntry = StretchEntry()
    day: DayEntry | None = None

    @pydantic.model_validator(mode="after")
    def _check_parts(self) -> Scenario:
        if self.day and self.traffic.clients:
            raise ValueError("a day needs requests_per_s instead of clients")
        return self


def change(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    """The scenario with other values, such as `traffic.languages=100`. Raises ValueError."""
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
    """The part of a simulation for one language, and the fates of its requests within the
    time that counts."""

    language: str
    #: Its share of the traffic.
    share: float
    #: Requests/s; 0 if clients ask.
    rate: float
    replicas: int
    #: All replicas that are paid for, with those that start or end.
    held: int
    #: Replicas that each simulated one stands for.
    factor: float = 1.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    #: Not taken: the queue was full, or the answer would have come too late.
    refused: int = 0
    #: Taken, and not answered in time.
    late: int = 0
    batches: int = 0
    rows: int = 0
    #: Seconds of batches.
    busy_s: float = 0.0


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

    part: LanguagePart
    #: Requests that it has, those in its batch included, by the ingress that sent them.
    connections: list[int]
    is_busy: bool = False
    waiting: deque[_Row] = field(default_factory=deque)
    #: The latest time at which the batch that is being filled leaves.
    wakes_at: float = -1.0


class Simulation:
    """All queues, and SimPy's clock. The same seed gives the same figures."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Sequence[LanguagePart],
        period: StretchEntry,
        seed: str,
    ) -> None:
        self._scenario, self._parts = scenario, parts
        self._from, self._until = period.settle_s, period.settle_s + period.seconds
        self._rng = random.Random(seed)
        self._env = simpy.Environment()
        self._gateway_free = [0.0] * scenario.gateways.processes
        self._numbers = itertools.count()
        self._timeout_s = scenario.traffic.timeout_s
        self._wait_s = scenario.replica.max_batch_delay / 1000
        self._batch_size = scenario.replica.batch_size
        #: Seconds of a batch, by its rows.
        self._table = scenario.replica.tabulate()
        self._sigma = math.sqrt(math.log1p(scenario.traffic.tokens_spread**2))
        self._is_closed = scenario.traffic.clients is not None
        self._replicas = {
            part.language: [
                _Replica(part, [0] * scenario.gateways.ingresses)
                for _ in range(part.replicas)
            ]
            for part in parts
        }

    def run(self) -> None:
        """Count what ends in the time that counts."""
        for part in self._parts:
            if part.rate:
                self._env.process(self._arrive(part))
        for _ in range(self._scenario.traffic.clients or 0):
            self._ask_again(0.0)
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

    def _ask_again(self, delay_s: float) -> None:
        shares = [part.share for part in self._parts]
        (part,) = self._rng.choices(self._parts, shares)
        self._after(delay_s, lambda: self._enter(part))

    def _enter(self, part: LanguagePart) -> None:
        """The gateway processes take turns, and each does one thing at a time."""
        now, number, free = self._env.now, next(self._numbers), self._gateway_free
        place = number % len(free)
        free[place] = max(free[place], now) + self._scenario.gateways.request_ms / 1000
        self._after(free[place] - now, lambda: self._route(part, number, now))

    def _route(self, part: LanguagePart, number: int, asked_at: float) -> None:
        """Refuses a request where the queue is full, or its answer would come too late."""
        now = self._env.now
        turn, ingress = divmod(number, self._scenario.gateways.ingresses)
        replicas = self._replicas[part.language]
        # Replicas with equally few take turns.
        _, _, replica = min(
            (one.connections[ingress], (place - turn) % len(replicas), one)
            for place, one in enumerate(replicas)
        )
        batches = sum(replica.connections) / self._batch_size + 1
        forecast_s = self._wait_s + batches * self._table[-1]
        is_full = len(replica.waiting) >= self._scenario.replica.queue_size
        if is_full or forecast_s > _MARGIN * (asked_at + self._timeout_s - now):
            part.refused += self._counts
            if self._is_closed:
                self._ask_again(_PAUSE_S)
            return
        # Lengths that differ have a logarithmic normal distribution with the mean 1.
        sigma, draw = self._sigma, self._rng.lognormvariate
        length = draw(-(sigma**2) / 2, sigma) if sigma else 1.0
        replica.waiting.append(_Row(asked_at, now, length, ingress))
        replica.connections[ingress] += 1
        self._advance(replica)

    # From a replica to the client.

    def _advance(self, replica: _Replica) -> None:
        """Starts the next batch if it can leave, and waits for it otherwise: a batch leaves
        when it is full, or when the window has ended that its first row began."""
        if replica.is_busy or not replica.waiting:
            return
        now, leaves_at = self._env.now, replica.waiting[0].came_at + self._wait_s
        if len(replica.waiting) >= self._batch_size or leaves_at <= now + _EPSILON_S:
            self._start_batch(replica)
        elif replica.wakes_at != leaves_at:
            replica.wakes_at = leaves_at
            self._after(leaves_at - now, lambda: self._advance(replica))

    def _start_batch(self, replica: _Replica) -> None:
        """Rows whose time is over are in the batch, and take none."""
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
        if self._is_closed:
            for _ in batch:
                self._ask_again(0.0)
        self._advance(replica)


class Planner:
    """Finds how many replicas each language has at each moment of a day."""

    def __init__(self, scenario: Scenario, day: DayEntry) -> None:
        self._scenario, self._day = scenario, day
        #: The requests/s of a replica at which it has `target_ongoing_requests`.
        self._rate = find_rate(scenario, day)

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
            parts.append(LanguagePart(language, share, own, simulated, held, factor))
        kept = sum(part.rate for part in parts) / rate
        processes = math.ceil(round(gateways.processes * kept, 6))
        gateways = gateways.model_copy(update={"processes": processes})
        return self._scenario.model_copy(update={"gateways": gateways}), parts

    def _find_replicas(self, share: float, at_s: float) -> tuple[int, int]:
        """Replicas that answer and those that are paid for. Serve keeps what was wanted
        within a delay, and a new replica answers when it has started."""
        seen_s = at_s - self._day.look_back_period_s / 2
        wanted_s = seen_s - self._day.upscale_delay_s
        started_s = wanted_s - self._scenario.replica.start_s
        kept_s = min(seen_s - self._day.downscale_delay_s, started_s)
        ready = self._count_wanted(share, kept_s, started_s)
        return ready, self._count_wanted(share, kept_s, wanted_s)

    def _count_wanted(self, share: float, since_s: float, until_s: float) -> int:
        """Count the replicas that Serve wants for the highest traffic between two times."""
        times = np.linspace(since_s, until_s, _LOOKS + 1)
        rate = share * max(map(self._scenario.traffic.find_rate, times))
        least, most = self._day.replicas
        return max(least, min(most, math.ceil(rate / self._rate)))


def find_rate(scenario: Scenario, day: DayEntry) -> float:
    """The requests/s of a replica at which it has `target_ongoing_requests`."""
    scenario = scenario.model_copy(update={"gateways": GatewayEntry()})
    low, count = 0.0, day.most_replicas
    high = scenario.replica.batch_size / scenario.replica.tabulate()[-1]
    for _ in range(_STEPS):
        rate = (low + high) / 2
        part = LanguagePart("", 1.0, rate * count, count, count)
        Simulation(scenario, [part], day, "rate").run()
        # Little's law: requests there are arrivals times the time that each stays.
        ongoing = sum(part.latencies_s) / day.seconds / count
        if part.refused or part.late or ongoing > day.target_ongoing_requests:
            high = rate
        else:
            low = rate
    return low


def run(scenario: Scenario, seed: int) -> list[LanguageOutcome]:
    """Simulate a scenario. The first outcome is that of all languages."""
    day, traffic, count = scenario.day, scenario.traffic, scenario.replicas
    if day is None:
        rate = traffic.requests_per_s or 0.0
        parts = [
            LanguagePart(language, share, rate * share, count, count)
            for language, share in traffic.find_shares().items()
        ]
        Simulation(scenario, parts, scenario.stretch, str(seed)).run()
        return summarize(scenario, parts, scenario.stretch.seconds)
    planner, parts = Planner(scenario, day), []
    for number in range(day.moments):
        driver.say(f"moment {number + 1} of {day.moments}")
        moment, some = planner.plan(number)
        Simulation(moment, some, day, f"{seed} {number}").run()
        parts += some
    return summarize(scenario, parts, day.seconds)


@dataclass(frozen=True)
class LanguageOutcome:
    """The figures of a language, or of all, and a row of the table. None where nothing was
    counted."""

    language: str
    #: Answered in time.
    requests_per_s: float
    latencies: report.Latencies
    #: Rows of a batch.
    batch_fill: float | None
    #: Shares of all requests that ended.
    refused: float
    late: float
    #: The average and the most, with those that start or end.
    replicas: float
    most_replicas: int
    #: The share of the time that replicas had a batch.
    utilisation: float
    #: The price of a million answers, with a part of the gateways that is alike for all.
    cost_per_million: float | None


def summarize(
    scenario: Scenario, parts: Sequence[LanguagePart], seconds: float
) -> list[LanguageOutcome]:
    """Return all languages together, then each one if there are several. In each part,
    `seconds` counted."""
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
        batches, ended = add(lambda part: part.batches), answered + refused + late
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
    """Latencies, batches, refusals, replicas and cost of a scenario, without any GPU.

    A scenario with `day` is represented by moments of the day with a part of the replicas;
    any other is simulated as it is.
    """
    plan = change(driver.load_plan(scenario, Scenario), setting or ())
    outcomes = run(plan, seed)
    return report.Findings(report.tabulate(outcomes), outcomes)
