"""A language's replicas: which one gets a request, and what became of all requests."""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.simulate.autoscaling import Decision
from benchmarks.simulate.replica import Replica


@dataclass(frozen=True)
class Part:
    """What is simulated of a language."""

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
    """What became of a language's requests within the time that counts."""

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
    #: How many requests of the whole one of this tally stands for, and how many seconds
    #: one of its seconds.
    weight: float = 1.0
    span: float = 1.0


class Pool:
    """A language's replicas. Those that start or end get no requests."""

    def __init__(self, part: Part, tally: Tally, rng: random.Random) -> None:
        self.part = part
        self.tally = tally
        self.replicas: list[Replica] = []
        self.ending: set[Replica] = set()
        self.starting = 0
        #: Replicas that start and are not wanted any more.
        self.unwanted = 0
        self.decision = Decision(part.replicas)
        #: Ongoing requests, their sum over time, and earlier sums with their times.
        self.ongoing = 0
        self.area_s = 0.0
        self.changed_at = 0.0
        self.history: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self._turns: list[int] = []
        self._rng = rng

    @property
    def held(self) -> int:
        """Replicas that are paid for."""
        return len(self.replicas) + len(self.ending) + self.starting - self.unwanted

    def start_ingresses(self, count: int) -> None:
        """Each ingress begins with another replica."""
        self._turns = [self._rng.randrange(1 << 16) for _ in range(count)]

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

    def find_least(self, ingress: int) -> Replica:
        """The replica with the fewest requests of this ingress; alike ones in turns."""
        count = len(self.replicas)
        start = self._turns[ingress] % count
        chosen, fewest = start, self.replicas[start].connections[ingress]
        for step in range(1, count):
            if not fewest:
                break
            place = (start + step) % count
            connections = self.replicas[place].connections[ingress]
            if connections < fewest:
                chosen, fewest = place, connections
        self._turns[ingress] = chosen + 1
        return self.replicas[chosen]

    def find_better(self, _: int) -> Replica:
        """The one of two, drawn at random, that has fewer requests of all ingresses."""
        count = len(self.replicas)
        if count == 1:
            return self.replicas[0]
        first = self._rng.randrange(count)
        second = (first + 1 + self._rng.randrange(count - 1)) % count
        one, other = self.replicas[first], self.replicas[second]
        return one if one.ongoing <= other.ongoing else other
