"""`python -m benchmarks documents`: the texts of a document as a job, and as lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated

import requests
import typer

from benchmarks.figures import Spread, find_ratio, spread
from benchmarks.instruments import jobs
from benchmarks.instruments.running import find_running
from benchmarks.instruments.sentences import write_document
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
from deploy.stack import StackError

#: What is promised: the least ratio of a job to lists.
LIMIT = 0.9
SOURCE, TARGET = "en", "fr"
LISTS, JOB = "lists", "a document"
_TIMEOUT_S = 120
_LONGEST_S = 3600


def command(
    *,
    kilobytes: Annotated[float, typer.Option(help="Of the document.", min=1)] = 400,
    texts: Annotated[int, typer.Option(help="In a list.", min=1)] = 64,
    clients: Annotated[int, typer.Option(help="That send lists.", min=1)] = 8,
    rounds: Annotated[int, typer.Option(help="Lists, then a job.", min=1)] = 3,
    run_dir: RunDir = DEFAULT_RUN,
    out: Out = Path("run/benchmark-documents.json"),
) -> None:
    """Texts per second of a document on the running stack, against those of lists."""
    with explain_errors():
        url = find_running(run_dir).url
        ways = {
            LISTS: partial(_send_lists, url, texts=texts, clients=clients),
            JOB: partial(_send_document, url),
        }
        rates = _take_turns(ways, rounds, int(kilobytes * 1000))
        ratio = judge(rates)
        console.print(describe(ratio))
        options = {"kilobytes": kilobytes, "texts": texts, "clients": clients}
        results = {"limit": LIMIT, "ratio": ratio, "texts_per_s": rates}
        publish(out, tabulate(rates), Content("documents", options, results))


def _take_turns(
    ways: Mapping[str, Callable[[Sequence[str]], None]], rounds: int, size_bytes: int
) -> dict[str, list[float]]:
    """Each way's texts per second, by round."""
    rates: dict[str, list[float]] = {way: [] for way in ways}
    with show_progress(len(ways) * rounds) as bar:
        for number in range(rounds):
            lines = write_document(SOURCE, size_bytes, seed=number).splitlines()
            for way, send in ways.items():
                bar.say(f"round {number + 1} of {rounds}, {way}")
                rates[way].append(_measure(send, lines))
                bar.tick()
    return rates


def judge(rates: dict[str, list[float]]) -> Spread:
    """A document's texts per second, divided by those of lists."""
    ratio = find_ratio(rates[JOB], rates[LISTS])
    assert ratio
    return ratio


def describe(ratio: Spread) -> str:
    """The result in a sentence."""
    held = "within" if ratio.median >= LIMIT else "below"
    return f"A document is {ratio} times as fast as lists: {held} {LIMIT:g}."


def tabulate(rates: dict[str, list[float]]) -> Table:
    """A row for each way."""
    rows = tuple((way, str(spread(found))) for way, found in rates.items())
    return Table(("sent as", "texts/s"), rows)


def _measure(send: Callable[[Sequence[str]], None], lines: Sequence[str]) -> float:
    begin = time.monotonic()
    send(lines)
    return len(lines) / (time.monotonic() - begin)


def _send_lists(url: str, lines: Sequence[str], *, texts: int, clients: int) -> None:
    def ask(place: int) -> None:
        body = {
            "src_lang": SOURCE,
            "tgt_lang": TARGET,
            "src_text": lines[place : place + texts],
        }
        answer = requests.post(url, json=body, timeout=_TIMEOUT_S)
        if not answer.ok:
            raise StackError(f"{url} answered {answer.status_code}: {answer.text}")

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(0, len(lines), texts)))


def _send_document(url: str, lines: Sequence[str]) -> None:
    job = jobs.upload(url, "\n".join(lines), SOURCE, TARGET)
    jobs.wait_for_end(job, _LONGEST_S)
    jobs.remove(job)
