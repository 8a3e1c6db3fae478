"""`python -m benchmarks soak`: an hour of the same mixed load, with mistakes, slow clients and
clients that hang up, and whether anything grows.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks import driver
from benchmarks.instruments import generator, passes, running
from benchmarks.instruments.generator import Request, Target, write_messages
from benchmarks.instruments.load import find_leaders, measure_holdings
from benchmarks.instruments.workload import draw, write_document
from benchmarks.report import Chart, Findings, list_counts, percentile, show, tabulate
from deploy import stack as stacks
from handlers.engine.translation.m2m100 import Sentence

_RUN = stacks.ROOT / "run/soak/run"
SENTENCE = "sentence"
#: The share of each, of a hundred requests.
SHARES = {SENTENCE: 75, "list": 8, "document": 2, "HTML": 7, "mistake": 8}
_LIST_TEXTS, _DOCUMENT_BYTES = 5, 2000
_PATIENCE_S = 40.0
_SLOW_PARTS = 5
#: The target: nothing grows by more, from the first quarter to the last.
GROWTH = 0.02
#: MB, files, threads or milliseconds that are too few to be called growth, such as a pool's
#: next thread.
SLACK = 2.0
#: Samples before this share of the time do not count: caches fill, code is compiled.
WARM_UP = 0.2
_FEWEST = 8
_PIECES = 5000
#: Clients and length of the look for the capacity, and its share that is asked for.
_CLIENTS, _LOOK_S, _SHARE = 64, 10.0, 0.5
_MANNER = generator.Manner(addresses=50, patience_s=_PATIENCE_S)
#: Between two looks at memory, two reloads, and two visits of bad clients.
_EVERY_S, _RELOAD_S, _VISIT_S = 10.0, 600.0, 1.0


@dataclass(frozen=True)
class MedleyPiece:
    """A request, and the status that it is to get."""

    kind: str
    request: Request
    status: str = "200"


def draw_medley(count: int) -> list[MedleyPiece]:
    """`count` requests of all kinds in random order, the same in every run."""
    rng = random.Random(0)
    kinds = rng.choices(list(SHARES), list(SHARES.values()), k=count)
    return list(map(_make_piece, [rng] * count, kinds, draw(count)))


def _make_piece(rng: random.Random, kind: str, sentence: Sentence) -> MedleyPiece:
    text = sentence.text
    body: dict[str, Any] = {
        "src_lang": sentence.source,
        "src_text": text,
        "tgt_lang": sentence.target,
    }

    def write(**changed: Any) -> bytes:
        return json.dumps(body | changed, ensure_ascii=False).encode()

    path, status = "/translate", "200"
    match kind:
        case "list":
            content = write(src_text=[text] * _LIST_TEXTS)
        case "document":
            seed = rng.randrange(2**32)
            document = write_document(sentence.source, _DOCUMENT_BYTES, seed=seed)
            content = write(src_text=document)
        case "HTML":
            html = f"<ul><li>{text}</li><li><b>1</b></li></ul>"
            content = write(src_text=html, format="html")
        case "mistake":
            mistakes = [
                (write(tgt_lang="xx"), "/translate", "422"),
                (write(src_text=7), "/translate", "422"),
                (write()[:-2], "/translate", "400"),
                (write(), "/no/such/path", "404"),
                (write(src_text="a" * (1 << 20)), "/translate", "413"),
            ]
            content, path, status = rng.choice(mistakes)
        case _:
            content = write()
    return MedleyPiece(kind, Request(content, path), status)


def ask_badly(url: str, pieces: Sequence[MedleyPiece]) -> None:
    """One client sends slowly, and one hangs up before its answer."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    for is_slow in (True, False):
        target = Target(url, [random.choice(pieces).request])
        (message,) = write_messages(target, None)
        size = len(message) // _SLOW_PARTS + 1 if is_slow else len(message)
        with (
            suppress(OSError),
            socket.create_connection(address, _PATIENCE_S) as client,
        ):
            for start in range(0, len(message), size):
                client.sendall(message[start : start + size])
                time.sleep(0.2 if is_slow else 0.02)
            if is_slow:
                client.recv(1 << 16)


@dataclass(frozen=True)
class Trend:
    """The medians of a measure's first and last quarter after warming up."""

    part: str
    unit: str
    first: float
    last: float
    change: str
    #: Whether it grew by at most 2 %, or by little of something small.
    is_flat: bool


@dataclass
class Diary:
    """A diary of the events during the load."""

    pieces: Sequence[MedleyPiece]
    #: The measures of each program, and percentiles of the sentences' latencies since the
    #: last look, by unit: pairs of minutes since the start and value.
    series: dict[tuple[str, str], list[tuple[float, float]]] = field(
        default_factory=dict
    )
    #: The counts of unexpected answers, by kind and status.
    surprises: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    _began: float = field(default_factory=time.monotonic)
    _recent_ms: list[float] = field(default_factory=list)

    def keep(self, reply: generator.LoadReply) -> None:
        piece = self.pieces[reply.number % len(self.pieces)]
        self.answers += 1
        if reply.status != piece.status:
            self.surprises[f"{piece.kind}: {reply.status}"] += 1
        elif piece.kind == SENTENCE:
            self._recent_ms.append(reply.latency_s * 1000)

    def look(self) -> None:
        """Note the state of the stack."""
        recent, self._recent_ms = self._recent_ms, []
        minutes = (time.monotonic() - self._began) / 60
        values: dict[tuple[str, str], float | None] = {
            ("p50", "ms"): percentile(recent, 0.5),
            ("p95", "ms"): percentile(recent, 0.95),
        }
        # A program that is being started again is seen the next time.
        with suppress(psutil.Error, OSError, ValueError, KeyError):
            stack = stacks.read(_RUN)
            holdings = measure_holdings(find_leaders(stack)) if stack else {}
            for program, held in holdings.items():
                values[program, "MB"] = held.pss_mb
                values[program, "files"] = held.files
                values[program, "threads"] = held.threads
        for key, value in values.items():
            if value is not None:
                self.series.setdefault(key, []).append((minutes, value))

    def reload(self) -> None:
        """Take over the edited configuration, as an operator does."""
        try:
            running.reload(_RUN)
        except stacks.StackError:
            self.surprises["reload: refused"] += 1


def answer(*, minutes: float) -> Findings:
    """Memory, open files, threads and latency of a stack under a steady load.

    Sentences, lists, documents, HTML and mistakes arrive at random, beside clients that
    send slowly or hang up, and a reload now and then. A measure is flat if it grew by at
    most 2 % from the first quarter to the last, after a warm-up of a fifth.
    """
    pieces = draw_medley(_PIECES)
    map_path = running.write_map(_RUN.with_name("map.json"), {})
    with running.start(_RUN, map_path, passes.find_model("models/phrasebook")) as stack:
        target = stack.aim([piece.request for piece in pieces])
        replies = generator.ask_again(
            target, _MANNER, clients=_CLIENTS, seconds=_LOOK_S
        )
        lasted_s = max(_LOOK_S, *(reply.ended_s for reply in replies))
        rate = _SHARE * len(replies) / lasted_s
        driver.say(f"{show(rate)} requests/s for {minutes:g} minutes")
        arrivals = generator.draw_arrivals(rate, minutes * 60, 0)
        diary = Diary(pieces)
        with (
            repeat(diary.look, _EVERY_S),
            repeat(diary.reload, _RELOAD_S),
            repeat(lambda: ask_badly(stack.url, pieces), _VISIT_S),
        ):
            generator.Generator(target, _MANNER).run(arrivals, diary.keep)
    return describe(diary, rate)


@contextmanager
def repeat(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Repeats it in a thread while the block lasts, with a pause before each time."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause_s):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def describe(diary: Diary, rate: float) -> Findings:
    """A row per measure of each program, a chart per unit, and what is not as it should be."""
    trends = [find_trend(*key, points) for key, points in diary.series.items()]
    known = [trend for trend in trends if trend]
    grown = [
        f"{trend.part}, {trend.unit}: grown by {trend.change}"
        for trend in known
        if not trend.is_flat
    ]
    surprises = list_counts(dict(diary.surprises.most_common()))
    lines: dict[str, dict[str, Sequence[tuple[float, float]]]] = {}
    for (part, unit), points in diary.series.items():
        lines.setdefault(unit, {})[part] = points
    return Findings(
        tabulate(known),
        {"rate": rate, "trends": known, "surprises": diary.surprises, "series": lines},
        remarks=[
            f"{diary.answers} answers; not as expected: {surprises or 'none'}",
            *(grown or ["Everything is flat."]),
        ],
        charts=[Chart(unit, "minutes", unit, parts) for unit, parts in lines.items()],
    )


def find_trend(
    part: str, unit: str, series: Sequence[tuple[float, float]]
) -> Trend | None:
    """The trend of a measure; None with few points."""
    begins = WARM_UP * max(at for at, _ in series)
    values = [value for at, value in series if at >= begins]
    if len(values) < _FEWEST:
        return None
    quarter = len(values) // 4
    first, last = map(statistics.median, (values[:quarter], values[-quarter:]))
    grown, change = last - first, f"{(last - first) / (first or 1):+.1%}"
    return Trend(part, unit, first, last, change, grown <= max(GROWTH * first, SLACK))
