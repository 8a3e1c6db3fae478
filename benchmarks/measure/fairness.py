"""`python -m benchmarks fairness`: one client's sentences beside long documents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import Spread, find_median, find_ratio, group, show
from benchmarks.instruments.beside import repeat
from benchmarks.instruments.generator import Reply, Request, ask_once
from benchmarks.instruments.generator import Target as Asked
from benchmarks.instruments.load import Load, measure_closed
from benchmarks.instruments.running import find_running
from benchmarks.instruments.sentences import draw, write_document, write_request
from benchmarks.options import (
    DEFAULT_RUN,
    Out,
    RunDir,
    console,
    explain_errors,
    publish,
    show_progress,
)
from benchmarks.report import Content, Table
from handlers.engine.translation.m2m100 import Sentence

#: What is promised: under load the 95th percentile is at most so many times as high.
LIMIT = 3.0
_TICKS_PER_S = 10
_SENTENCES = 500
#: Until the documents' first sentences are with TorchServe.
_BEGIN_S = 1


@dataclass(frozen=True)
class Round:
    """One client's sentences, without documents beside them and with."""

    alone: Load
    loaded: Load
    documents: Sequence[Reply]


def command(
    *,
    target: Annotated[
        str, typer.Option(help="The language of sentences and documents.")
    ] = "fr",
    kilobytes: Annotated[float, typer.Option(help="Of a document.", min=1)] = 200,
    documents: Annotated[int, typer.Option(help="Translated at a time.", min=1)] = 1,
    seconds: Annotated[float, typer.Option(help="Length of each half round.")] = 30,
    rounds: Annotated[int, typer.Option(help="Without and with, so often.", min=1)] = 3,
    run_dir: RunDir = DEFAULT_RUN,
    out: Out = Path("run/benchmark-fairness.json"),
) -> None:
    """One client's p95 while the running stack translates documents, against its p95 alone."""
    with explain_errors():
        running = find_running(run_dir)
        requests = list(map(write_request, draw(_SENTENCES, (target,))))
        document = draw_request(target, int(kilobytes * 1000))
        with show_progress(2 * rounds * seconds * _TICKS_PER_S) as bar:
            asked = running.aim(requests, bar.tick)
            measured = []
            for number in range(rounds):
                bar.say(f"round {number + 1} of {rounds}")
                measured.append(_measure(asked, document, documents, seconds))
        ratio = judge(measured)
        console.print(describe(ratio))
        options = {
            "target": target,
            "document_bytes": len(document.body),
            "documents": documents,
            "seconds": seconds,
        }
        results = {"limit": LIMIT, "p95_ratio": ratio, "rounds": measured}
        publish(out, tabulate(measured), Content("fairness", options, results))


def draw_request(target: str, size_bytes: int) -> Request:
    """A document of this size as a request, from English or, into English, from German."""
    source = "en" if target != "en" else "de"
    return write_request(Sentence(write_document(source, size_bytes), source, target))


def judge(rounds: Sequence[Round]) -> Spread | None:
    """The 95th percentile beside documents, divided by that without."""
    return find_ratio(
        [r.loaded.latencies.p95_ms for r in rounds],
        [r.alone.latencies.p95_ms for r in rounds],
    )


def describe(ratio: Spread | None) -> str:
    """The result in a sentence."""
    if ratio is None:
        return "No sentence was translated."
    held = "within" if ratio.median <= LIMIT else "over"
    return f"p95 beside documents is {ratio} times that alone: {held} {LIMIT:g}."


def tabulate(rounds: Sequence[Round]) -> Table:
    """Two rows per round."""
    headers = ("round", "beside", "sentences", "p50 ms", "p95 ms", "p99 ms", "errors")
    rows = []
    for number, measured in enumerate(rounds, 1):
        beside = _summarize(measured.documents)
        rows.append(_write_row(number, "nothing", measured.alone))
        rows.append(_write_row(number, f"documents: {beside}", measured.loaded))
    return Table(headers, tuple(rows))


def _summarize(documents: Sequence[Reply]) -> str:
    """How many documents got which status, and the median of their times."""
    return ", ".join(
        f"{len(some)} x {status} after {show(find_median(r.latency_s for r in some))} s"
        for status, some in group(documents, lambda reply: reply.status).items()
    )


def _measure(asked: Asked, document: Request, documents: int, seconds: float) -> Round:
    alone = measure_closed(asked, clients=1, seconds=seconds)
    answers: list[Reply] = []
    target = Asked(asked.url, [document])
    with ExitStack() as others:
        for _ in range(documents):
            # The last ones are awaited: the next round begins with nothing under way.
            others.enter_context(
                repeat(lambda: answers.append(ask_once(target)), pause_s=0)
            )
        time.sleep(_BEGIN_S)
        loaded = measure_closed(asked, clients=1, seconds=seconds)
    return Round(alone, loaded, answers)


def _write_row(number: int, beside: str, load: Load) -> tuple[str, ...]:
    times = load.latencies
    return (
        *(str(number), beside, str(load.answers)),
        *map(show, (times.p50_ms, times.p95_ms, times.p99_ms)),
        str(load.errors),
    )
