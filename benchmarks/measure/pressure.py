"""What one server under too much load answers in time, refuses, and computes in vain."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.figures import percentile
from benchmarks.instruments.counters import read_counters
from benchmarks.instruments.generator import (
    UNSENT,
    Reply,
    Target,
    ask_again,
    ask_at,
    ask_once,
    ask_within,
    draw_arrivals,
)
from benchmarks.instruments.processes import CLIENT, measure_cpu
from benchmarks.instruments.running import Running

ANSWERED, REFUSED = "200", "429"
#: A client of the closed loop waits so long before it asks again for what it was refused.
_PAUSE_S = 0.05
#: The longest time for which work that no client waits for goes on; a batch's counters
#: are on TorchServe's page a moment after its answers.
_SETTLE_S, _LOOK_S = 600.0, 1.0
#: Requests by which a server's idle time is found, and how much longer than that is idle still.
_PROBES, _NEARLY, _NOISE_S = 3, 2.0, 0.05
#: Fewer refusals say nothing about what one costs.
_FEWEST_REFUSALS = 200


@dataclass(frozen=True)
class Step:
    """What a load made of a server. Rates are per second of the load's length."""

    limit_ms: int
    #: Times the capacity; 0 of a closed loop, which looks for the peak.
    load: float
    #: Requests that were sent, and how late 1 % of them were at least.
    offered_per_s: float
    lag_p99_ms: float | None
    #: Answered with 200 within the limit while the load lasted.
    good_per_s: float
    #: Times of the answers with 200, those after their limit included.
    p50_ms: float | None
    p99_ms: float | None
    #: Answered with 200, but after the limit.
    late: int
    refused: int
    refusal_p99_ms: float | None
    #: All other ends of a request, by status, the generator's own words among them.
    others: Mapping[str, int]
    answered: int
    #: Until the last client had its answer, or had given up.
    lasted_s: float = 0.0
    #: Computed by the workers, and the share of them that no client got in time; None
    #: where the server does not count.
    rows: int | None = None
    late_rows_share: float | None = None
    #: CPU seconds by program, the client's as `client`.
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    #: Share of the peak within the same limit, or of the offer where that is less.
    share: float | None = None


@dataclass(frozen=True)
class Ladder:
    """The loads that a server is put under, for each limit."""

    #: Times the capacity.
    loads: Sequence[float]
    seconds: float
    #: Numbers of clients among which the peak is looked for, and for how long each.
    clients: Sequence[int]
    peak_s: float
    #: That the clients have: a server may bound what it does for one.
    addresses: int = 1


@dataclass
class Bench:
    """A running server and its requests."""

    running: Running
    target: Target
    ladder: Ladder
    #: Names what is being done.
    say: Callable[[str], None]
    #: What a request takes that is alone.
    _idle_s: float = math.inf

    def press(self, limit_ms: int, capacity: float | None) -> list[Step]:
        """The peak within a limit, then the ladder's multiples of `capacity` or of that
        peak, and the peak again, because a machine's speed varies. A load's share is that
        of the mean of both peaks, or of the best load. Raises ValueError if nothing is
        answered in time."""
        first, clients = self.find_peak(limit_ms)
        capacity = capacity or first.good_per_s
        if not capacity:
            raise ValueError(f"no request is answered within {limit_ms} ms")
        steps = []
        for load in self.ladder.loads:
            self.say(f"{load:g} x {capacity:.0f} requests/s within {limit_ms} ms")
            step = self.measure_open(limit_ms, load * capacity)
            steps.append(replace(step, load=load))
        self.say(f"the peak within {limit_ms} ms again")
        last = self.measure_closed(limit_ms, clients)
        mean = (first.good_per_s + last.good_per_s) / 2
        peak = max([mean, *(step.good_per_s for step in steps)])
        return [first, last, *(_add_share(step, peak) for step in steps)]

    def find_peak(self, limit_ms: int) -> tuple[Step, int]:
        """The best closed loop and its clients, after one that warms the server up."""
        self.say("warming up")
        self.measure_closed(limit_ms, max(self.ladder.clients))
        probes = [self._probe() for _ in range(_PROBES)]
        answered = (lasted_s for is_answered, lasted_s in probes if is_answered)
        self._idle_s = min(answered, default=math.inf)
        found = []
        for clients in self.ladder.clients:
            self.say(f"the peak within {limit_ms} ms: {clients} clients")
            found.append((self.measure_closed(limit_ms, clients), clients))
        return max(found, key=lambda step: step[0].good_per_s)

    def measure_closed(self, limit_ms: int, clients: int) -> Step:
        """Clients that wait for their answers."""
        seconds = self.ladder.peak_s
        return self._measure(
            lambda: ask_again(
                self.target,
                ask_within(limit_ms, addresses=self.ladder.addresses),
                clients=clients,
                seconds=seconds,
                pause_s=_PAUSE_S,
            ),
            limit_ms,
            seconds,
        )

    def measure_open(self, limit_ms: int, rate: float) -> Step:
        """Clients that come by themselves, whatever happens to the others."""
        seconds = self.ladder.seconds
        manner = ask_within(limit_ms, addresses=self.ladder.addresses)
        arrivals = draw_arrivals(rate, seconds, seed=0)
        return self._measure(
            lambda: ask_at(self.target, arrivals, manner), limit_ms, seconds
        )

    def _measure(
        self, ask: Callable[[], list[Reply]], limit_ms: int, seconds: float
    ) -> Step:
        before = self._count_rows()
        replies, cpu_s = measure_cpu(self.running.leaders, ask)
        step = replace(summarize(replies, limit_ms, seconds), cpu_s=cpu_s)
        probes = self._settle()
        after = self._count_rows()
        if before is None or after is None:
            return step
        rows = after - before - probes
        good = step.answered - step.late
        late_share = max(0, rows - good) / rows if rows > 0 else None
        return replace(step, rows=rows, late_rows_share=late_share)

    def _settle(self) -> int:
        """Waits until a single request is fast. Returns how many were answered."""
        give_up_at = time.monotonic() + _SETTLE_S
        answered = 0
        while time.monotonic() < give_up_at:
            is_answered, lasted_s = self._probe()
            answered += is_answered
            if is_answered and lasted_s <= _NEARLY * self._idle_s + _NOISE_S:
                break
            time.sleep(_LOOK_S)
        time.sleep(_LOOK_S)
        return answered

    def _probe(self) -> tuple[bool, float]:
        """Whether one request gets 200, and how long it takes."""
        reply = ask_once(self.target)
        return reply.is_good, reply.latency_s

    def _count_rows(self) -> int | None:
        """Rows that the workers have computed; None if they do not count."""
        if not self.running.metrics_url:
            return None
        counters = read_counters(self.running.metrics_url)
        dropped = (n for name, n in counters.items() if name.startswith("Dropped"))
        return counters["Rows"] - sum(dropped)


def summarize(replies: Sequence[Reply], limit_ms: int, seconds: float) -> Step:
    """The figures of the replies to a load that took `seconds`."""
    answered = [reply for reply in replies if reply.status == ANSWERED]
    good = [reply for reply in answered if reply.latency_s * 1000 <= limit_ms]
    refusals = _read_ms(reply for reply in replies if reply.status == REFUSED)
    others = Counter(reply.status for reply in replies)
    del others[ANSWERED], others[REFUSED]
    sent = [reply for reply in replies if reply.status != UNSENT]
    sent_s = max((r.ended_s - r.latency_s + r.lag_s for r in sent), default=0.0)
    return Step(
        limit_ms=limit_ms,
        load=0.0,
        offered_per_s=len(sent) / max(seconds, sent_s),
        lag_p99_ms=percentile([reply.lag_s * 1000 for reply in replies], 0.99),
        good_per_s=sum(reply.ended_s <= seconds for reply in good) / seconds,
        p50_ms=percentile(_read_ms(answered), 0.5),
        p99_ms=percentile(_read_ms(answered), 0.99),
        late=len(answered) - len(good),
        refused=len(refusals),
        refusal_p99_ms=percentile(refusals, 0.99),
        others=dict(others),
        answered=len(answered),
        lasted_s=max((reply.ended_s for reply in replies), default=seconds),
    )


def _add_share(step: Step, peak: float) -> Step:
    possible = min(peak, step.offered_per_s)
    return replace(step, share=step.good_per_s / possible if possible else None)


def find_refusal_cost(steps: Sequence[Step]) -> dict[str, float]:
    """Milliseconds of CPU per refusal by program, by least squares: a program spends a
    fixed amount per refusal, other request and second. Empty if few were refused."""
    if sum(step.refused for step in steps) < _FEWEST_REFUSALS:
        return {}
    counts = [
        (step.refused, step.answered + sum(step.others.values()), step.lasted_s)
        for step in steps
    ]
    programs = set(steps[0].cpu_s) - {CLIENT}
    costs = {}
    for program in sorted(programs):
        spent_ms = [step.cpu_s.get(program, 0.0) * 1000 for step in steps]
        solution, *_ = np.linalg.lstsq(np.array(counts, float), np.array(spent_ms))
        costs[program] = float(solution[0])
    return costs


def _read_ms(replies: Iterable[Reply]) -> list[float]:
    return [reply.latency_s * 1000 for reply in replies]
