"""Measures throughput and latency under load: with clients that wait for each answer
(closed loop), or with requests that arrive by themselves (open loop).
"""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from benchmarks.figures import Latencies, percentile, summarize_latencies
from benchmarks.instruments.arrivals import draw_arrivals

#: The slowest batch: 64 sentences of the baseline take a minute in M2M100-418M's size.
TIMEOUT_S = 600
_TICK_S = 0.1

Tick = Callable[[], None]


@dataclass(frozen=True)
class Answer:
    """What one request got."""

    #: From when it was sent; in an open loop from when it was to arrive.
    latency_s: float
    #: HTTP's status, or the name of an exception.
    status: str
    #: How much later than planned it was sent.
    lag_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether it is a translation."""
        return self.status == "200"


@dataclass(frozen=True)
class Load:
    """What a load made of a stack."""

    #: `closed`, or `open`.
    loop: str
    #: Clients of a closed loop, planned requests/s of an open one.
    level: float
    seconds: float
    answers: int
    #: Answered with 200.
    requests_per_s: float
    #: Answered with anything else, or not at all.
    errors: int
    #: Those of requests that were answered with 200.
    latencies: Latencies
    statuses: Mapping[str, int]
    #: How late 1 % of the requests were sent at least: much means that the client, not the
    #: stack, was too slow. It is part of the latencies.
    lag_p99_ms: float | None = None
    #: Milliseconds of CPU per answer, by program.
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    #: Megabytes at its end, by program.
    memory_mb: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What one request sends, and where to."""

    body: bytes
    path: str = "/"


@dataclass(frozen=True)
class Target:
    """The server that is asked, and for what; `tick` is called about ten times a second."""

    url: str
    requests: Sequence[Request]
    tick: Tick = lambda: None
    #: Headers for every request.
    headers: Mapping[str, str] = field(default_factory=dict)


class Client:
    """One keep-alive connection."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._connection = http.client.HTTPConnection(
            urlsplit(url).netloc, timeout=TIMEOUT_S
        )

    def ask(self, request: Request) -> str:
        """Sends a request, waits for the answer and returns its status."""
        try:
            self._connection.request("POST", request.path, request.body, self._headers)
            response = self._connection.getresponse()
            response.read()
            return str(response.status)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return type(error).__name__

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()


def measure_closed(target: Target, *, clients: int, seconds: float) -> Load:
    """Asks with `clients` for `seconds`. Requests that are then under way still count."""
    began = time.perf_counter()

    def ask(number: int, stop: threading.Event) -> Iterable[Answer]:
        client = Client(target.url, target.headers)
        for index in itertools.count(number, clients):
            sent = time.perf_counter()
            if stop.is_set() or sent - began >= seconds:
                break
            status = client.ask(target.requests[index % len(target.requests)])
            yield Answer(time.perf_counter() - sent, status)
        client.close()

    answers = _gather(ask, clients, target.tick)
    elapsed_s = time.perf_counter() - began
    return summarize("closed", clients, elapsed_s, answers)


def measure_open(
    target: Target, *, rate: float, seconds: float, connections: int, seed: int = 0
) -> Load:
    """Lets requests arrive at random for so long, whatever happens to the others.

    Times count from the planned arrival. Otherwise a request that waits for a free
    connection would hide its queueing.
    """
    arrivals = draw_arrivals(rate, seconds, seed)
    numbers = iter(range(len(arrivals)))
    lock = threading.Lock()
    began = time.perf_counter()

    def ask(_: int, stop: threading.Event) -> Iterable[Answer]:
        client = Client(target.url, target.headers)
        while not stop.is_set():
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            planned = began + arrivals[number]
            stop.wait(max(0.0, planned - time.perf_counter()))
            lag_s = time.perf_counter() - planned
            status = client.ask(target.requests[number % len(target.requests)])
            yield Answer(time.perf_counter() - planned, status, lag_s)
        client.close()

    answers = _gather(ask, min(connections, max(1, len(arrivals))), target.tick)
    elapsed_s = max(seconds, time.perf_counter() - began)
    return summarize("open", rate, elapsed_s, answers)


def summarize(
    loop: str, level: float, seconds: float, answers: Sequence[Answer]
) -> Load:
    """The figures of a loop's answers."""
    good = [answer.latency_s for answer in answers if answer.is_good]
    lags = [answer.lag_s * 1000 for answer in answers]
    return Load(
        loop=loop,
        level=level,
        seconds=seconds,
        answers=len(answers),
        requests_per_s=len(good) / seconds,
        errors=len(answers) - len(good),
        latencies=summarize_latencies(good),
        statuses=dict(Counter(answer.status for answer in answers)),
        lag_p99_ms=percentile(lags, 0.99) if loop == "open" else None,
    )


def _gather(
    ask: Callable[[int, threading.Event], Iterable[Answer]], threads: int, tick: Tick
) -> list[Answer]:
    """The answers that all threads get. The threads are daemons, so that Ctrl-C does not
    wait for missing answers."""
    answers: list[Answer] = []
    stop = threading.Event()

    def run(number: int) -> None:
        for answer in ask(number, stop):
            answers.append(answer)

    running = [
        threading.Thread(target=run, args=(i,), daemon=True) for i in range(threads)
    ]
    try:
        for thread in running:
            thread.start()
        while any(thread.is_alive() for thread in running):
            time.sleep(_TICK_S)
            tick()
    finally:
        stop.set()
    return answers
