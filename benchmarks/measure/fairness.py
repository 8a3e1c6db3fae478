"""`python -m benchmarks fairness`: one client's sentences beside long documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from benchmarks.figures import Spread, find_ratio, show
from benchmarks.instruments import jobs
from benchmarks.instruments.jobs import Job
from benchmarks.instruments.load import Load, measure_closed
from benchmarks.instruments.running import Running, find_running
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

#: What is promised: under load the 95th percentile is at most so many times as high.
LIMIT = 3.0
_TICKS_PER_S = 10
_SENTENCES = 500
#: For a document to be read, and its first sentences translated.
_BEGIN_S = 120


#: A document's content, its language, and that of its translation.
Order: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class Round:
    """One client's sentences, without documents beside them and with."""

    alone: Load
    loaded: Load
    #: At the end of the measurement.
    documents: Sequence[Job]


def command(
    *,
    target: Annotated[
        str, typer.Option(help="The language of sentences and documents.")
    ] = "fr",
    kilobytes: Annotated[float, typer.Option(help="Of a document.", min=1)] = 10_000,
    documents: Annotated[int, typer.Option(help="Translated at a time.", min=1)] = 1,
    seconds: Annotated[float, typer.Option(help="Length of each half round.")] = 30,
    rounds: Annotated[int, typer.Option(help="Without and with, so often.", min=1)] = 3,
    run_dir: RunDir = DEFAULT_RUN,
    out: Out = Path("run/benchmark-fairness.json"),
) -> None:
    """One client's p95 while the running stack translates documents, against its p95 alone."""
    with explain_errors():
        running = find_running(run_dir)
        source = find_source(target)
        content = write_document(source, int(kilobytes * 1000))
        orders = [(content, source, target)] * documents
        measured = _measure(running, orders, rounds, seconds)
        ratio = judge(measured)
        console.print(describe(ratio))
        options = {
            "target": target,
            "document_bytes": len(content.encode()),
            "documents": documents,
            "seconds": seconds,
        }
        results = {"limit": LIMIT, "p95_ratio": ratio, "rounds": measured}
        publish(out, tabulate(measured), Content("fairness", options, results))


def _measure(
    running: Running, orders: Sequence[Order], rounds: int, seconds: float
) -> list[Round]:
    measured = []
    with show_progress(2 * rounds * seconds * _TICKS_PER_S) as bar:
        sentences = draw(_SENTENCES, (orders[0][2],))
        asked = running.aim(list(map(write_request, sentences)), bar.tick)
        for number in range(rounds):
            bar.say(f"round {number + 1} of {rounds}")
            alone = measure_closed(asked, clients=1, seconds=seconds)
            with _translate(running.url, orders) as begun:
                loaded = measure_closed(asked, clients=1, seconds=seconds)
                measured.append(Round(alone, loaded, list(map(jobs.read, begun))))
    return measured


def find_source(target: str) -> str:
    """Documents are English, or German where English is the target."""
    return "en" if target != "en" else "de"


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


def _summarize(documents: Sequence[Job]) -> str:
    """How much of each is translated."""
    return ", ".join(f"{job.texts_done} of {job.texts} texts" for job in documents)


@contextmanager
def _translate(url: str, orders: Sequence[Order]) -> Iterator[list[Job]]:
    """All of them are being translated while the block lasts."""
    with ExitStack() as sent:
        begun = []
        for order in orders:
            begun.append(jobs.upload(url, *order))
            sent.callback(jobs.remove, begun[-1])
        yield [jobs.wait_for_begin(job, _BEGIN_S) for job in begun]


def _write_row(number: int, beside: str, load: Load) -> tuple[str, ...]:
    times = load.latencies
    return (
        *(str(number), beside, str(load.answers)),
        *map(show, (times.p50_ms, times.p95_ms, times.p99_ms)),
        str(load.errors),
    )
