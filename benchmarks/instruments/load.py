"""Measures a load of clients that wait for answers (closed loop) or of planned arrivals (open
loop): its latencies, the CPU time and memory of a stack's programs, and the workers' counters
on TorchServe's metrics page. The workers are counted apart from TorchServe's Java.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import psutil
import requests
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.instruments import generator
from benchmarks.instruments.generator import Leaders, LoadReply, Manner, Target
from benchmarks.report import Latencies, summarize_latencies
from deploy.stack import Stack

OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True)
class LoadFigures:
    """The throughput and latencies of a stack under a load."""

    #: `closed`, or `open`.
    loop: str
    #: Clients of a closed loop, planned requests/s of an open one.
    level: float
    seconds: float
    answers: int
    #: Requests answered with 200.
    requests_per_s: float
    #: Requests answered with another status, or not at all.
    errors: int
    #: Latencies of answers with 200, from the sending or, in an open loop, the planned arrival.
    latencies: Latencies
    statuses: Mapping[str, int]
    #: The 99th percentile of the sending delays, which are part of the latencies. A high value
    #: means that the client, not the stack, was too slow.
    lag_p99_ms: float | None = None
    #: Milliseconds of CPU per answer by program, including the client that made the load.
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    #: Megabytes at the end of the load, by program.
    memory_mb: Mapping[str, float] = field(default_factory=dict)
    #: From the start command to the first answer; None if the stack was already running.
    cold_start_s: float | None = None


def measure_closed(target: Target, *, clients: int, seconds: float) -> LoadFigures:
    """Measure a closed loop of `clients` for `seconds`. Requests then in flight still count."""
    return measure(target, CLOSED, clients, seconds=seconds)[0]


def measure_levels(
    target: Target, levels: Sequence[int], *, seconds: float, warm_s: float
) -> dict[str, LoadFigures]:
    """Warm up with the most clients, then measure each number of clients."""
    measure_closed(target, clients=max(levels), seconds=warm_s)
    return {
        str(level): measure_closed(target, clients=level, seconds=seconds)
        for level in levels
    }


def measure(
    target: Target,
    loop: str,
    level: float,
    *,
    seconds: float,
    manner: Manner | None = None,
    pause_s: float = 0.0,
) -> tuple[LoadFigures, list[LoadReply]]:
    """Measure a load of at least `seconds`, and return its figures and replies.

    In an open loop, requests arrive at random, independently of other requests. Latency
    counts from the planned arrival: otherwise the wait for a free connection would be hidden.
    In a closed loop, a client pauses after a refusal.
    """
    manner = manner or Manner()
    with measure_cpu(target.leaders) as spent:
        if loop == OPEN:
            arrivals = generator.draw_arrivals(level, seconds, 0)
            replies = generator.Generator(target, manner).run(arrivals)
        else:
            times = {"seconds": seconds, "pause_s": pause_s}
            replies = generator.ask_again(target, manner, clients=int(level), **times)
    lasted_s = max((reply.ended_s for reply in replies), default=0.0)
    figures = replace(
        summarize(loop, level, max(seconds, lasted_s), replies),
        cpu_ms=divide(spent, len(replies)),
        memory_mb=measure_memory(target.leaders),
    )
    return figures, replies


def summarize(
    loop: str, level: float, seconds: float, replies: Sequence[LoadReply]
) -> LoadFigures:
    """Return the figures of a load's replies."""
    is_open = loop == OPEN
    good = [
        reply.latency_s - (0.0 if is_open else reply.lag_s)
        for reply in replies
        if reply.is_good
    ]
    lags = summarize_latencies([reply.lag_s for reply in replies])
    return LoadFigures(
        loop=loop,
        level=level,
        seconds=seconds,
        answers=len(replies),
        requests_per_s=len(good) / seconds,
        errors=len(replies) - len(good),
        latencies=summarize_latencies(good),
        statuses=dict(Counter(reply.status for reply in replies)),
        lag_p99_ms=lags.p99_ms if is_open else None,
    )


#: The usual columns of a table of loads.
LOAD_COLUMNS = ("requests/s", "p50 ms", "p95 ms", "p99 ms", "errors")

_TORCHSERVE, _WORKERS = "torchserve", "workers"
#: This process, which generates the load.
CLIENT = "client"


def find_leaders(stack: Stack) -> dict[str, psutil.Process]:
    """Return the main processes of a stack that `python -m deploy` has started."""
    return {program: stack.find_leader(program) for program in stack.programs}


@contextmanager
def measure_cpu(leaders: Leaders) -> Iterator[dict[str, float]]:
    """Yield the CPU seconds of each program and the client, set when the block ends."""
    spent: dict[str, float] = {}
    before = _read_clock(leaders)
    yield spent
    # A new process began at 0; the CPU time of an ended one is unknown.
    for program, processes in _read_clock(leaders).items():
        known = before.get(program, {})
        spent[program] = sum(s - known.get(pid, 0.0) for pid, s in processes.items())


def measure_memory(leaders: Leaders) -> dict[str, float]:
    """Measure the megabytes of each program; memory shared by several processes counts once."""
    return {
        program: _measure_holding(family)["MB"]
        for program, family in _find_families(leaders).items()
    }


def measure_holdings(leaders: Leaders) -> dict[str, dict[str, float]]:
    """Measure the memory, files and threads of each program and of supervisord, by unit."""
    families = _find_families(leaders)
    supervisors = set[psutil.Process | None]()
    for leader in leaders.values():
        with suppress(psutil.NoSuchProcess):
            supervisors.add(leader.parent())
    families["supervisord"] = [process for process in supervisors if process]
    return {program: _measure_holding(family) for program, family in families.items()}


def _measure_holding(family: Iterable[psutil.Process]) -> dict[str, float]:
    """Add up proportional set sizes, files and threads; processes that end are skipped."""
    pss = files = threads = 0
    for process in family:
        with suppress(psutil.Error):
            pss += process.memory_full_info().pss
            files += process.num_fds()
            threads += process.num_threads()
    return {"MB": pss / 1e6, "files": files, "threads": threads}


def divide(seconds: Mapping[str, float], answers: int) -> dict[str, float]:
    """Convert CPU seconds to milliseconds per answer."""
    return {name: 1000 * spent / max(1, answers) for name, spent in seconds.items()}


def _find_families(leaders: Leaders) -> dict[str, list[psutil.Process]]:
    families: dict[str, list[psutil.Process]] = {}
    for program, leader in leaders.items():
        with suppress(psutil.NoSuchProcess):  # it has crashed
            families[program] = [leader, *leader.children(recursive=True)]
    if family := families.get(_TORCHSERVE):
        workers = list(_list_workers(family))
        families[_TORCHSERVE] = [one for one in family if one not in workers]
        families[_WORKERS] = workers
    return families


def _list_workers(family: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    for process in family:
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if process.name() == "java":
                yield from process.children(recursive=True)


def _read_clock(leaders: Leaders) -> dict[str, dict[int, float]]:
    """Read the CPU seconds of each program's processes, by process id."""
    families = _find_families(leaders) | {CLIENT: [psutil.Process()]}
    clock: dict[str, dict[int, float]] = {program: {} for program in families}
    for program, family in families.items():
        for process in family:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                clock[program][process.pid] = times.user + times.system
    return clock


_PREFIX = "babelgate"


@dataclass(frozen=True)
class WorkerFigures:
    """Figures of all workers together; None if they ran no batch."""

    #: The mean number of rows in a batch.
    batch_fill: float | None = None
    #: From the sending of a row by the gateway to the start of its batch.
    queue_ms: float | None = None
    #: The duration of a batch in the handler.
    handler_ms: float | None = None


def read_counters(url: str) -> Counter[str]:
    """Read the handlers' counters, added up over the models, in lower case. Raises
    RequestException."""
    page = requests.get(url, timeout=10)
    page.raise_for_status()
    counters: Counter[str] = Counter()
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            name = sample.name.lower().removesuffix("_total")
            # The gateway's own metrics have underscores.
            if name.startswith(_PREFIX) and name.isalpha():
                counters[name.removeprefix(_PREFIX)] += round(sample.value)
    return counters


def describe_workers(
    before: Mapping[str, int], after: Mapping[str, int]
) -> WorkerFigures:
    """Return the figures between two readings of the counters."""
    counted = Counter(after)
    counted.subtract(before)

    def divide(dividend: str, divisor: str) -> float | None:
        return counted[dividend] / counted[divisor] if counted[divisor] else None

    return WorkerFigures(
        batch_fill=divide("rows", "batches"),
        queue_ms=divide("queuems", "rows"),
        handler_ms=divide("computems", "batches"),
    )
