"""Documents that the running stack translates: `python -m benchmarks documents` compares them
with lists of the same texts, `fairness` asks for single sentences beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import requests
import typer

from benchmarks import driver
from benchmarks.figures import find_ratio, spread
from benchmarks.instruments.load import LOAD_COLUMNS, LoadFigures, measure_closed
from benchmarks.instruments.running import find_running
from benchmarks.instruments.sentences import draw, write_document, write_request
from benchmarks.report import Columns, nest, tabulate
from deploy.stack import StackError

#: The targets: the least ratio of a document to lists, and the highest of one client's
#: 95th percentile beside documents to that alone.
LEAST_RATIO, MOST_P95 = 0.9, 3.0
LISTS, DOCUMENT = "lists", "a document"
ALONE, BESIDE = "alone", "beside documents"
_SENTENCES = 500
_TIMEOUT_S, _PAUSE_S = 120, 0.2
#: For a document to be read and its first sentences translated, and for all of it.
_BEGIN_S, _END_S = 120, 3600

Kilobytes = Annotated[float, typer.Option(help="Of a document.", min=1)]


@dataclass(frozen=True)
class DocumentProgress:
    """A document on the stack at `url`, and how far it is."""

    url: str
    status: str
    texts: int
    texts_done: int


def compare_with_lists(
    *,
    kilobytes: Kilobytes = 400,
    texts: Annotated[int, typer.Option(help="In a list.", min=1)] = 64,
    clients: Annotated[int, typer.Option(help="That send lists.", min=1)] = 8,
    rounds: driver.Rounds = 3,
    run_dir: driver.RunDir = driver.DEFAULT_RUN,
) -> driver.Findings:
    """Texts per second of a document on the running stack, against those of lists."""
    url = find_running(run_dir).url

    def send_lists(lines: Sequence[str]) -> None:
        lists = [lines[place : place + texts] for place in range(0, len(lines), texts)]
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda some: _send_list(url, some), lists))

    def send_document(lines: Sequence[str]) -> None:
        with _upload(url, "\n".join(lines), "en", "fr") as job:
            _wait(job, _END_S, has_begun=False)

    def measure(send: Callable[[Sequence[str]], None], number: int) -> float:
        lines = write_document("en", int(kilobytes * 1000), seed=number).splitlines()
        began = time.monotonic()
        send(lines)
        return len(lines) / (time.monotonic() - began)

    ways = {LISTS: send_lists, DOCUMENT: send_document}
    turns = {way: partial(measure, send) for way, send in ways.items()}
    return describe_rates(driver.take_turns(turns, rounds))


def describe_rates(rates: Mapping[str, list[float]]) -> driver.Findings:
    """A row per way, and a document divided by the lists of its round."""
    ratio = find_ratio(rates[DOCUMENT], rates[LISTS])
    assert ratio
    columns: Columns[str] = {
        "sent as": lambda way: way,
        "texts/s": lambda way: spread(rates[way]),
    }
    held = "within" if ratio.median >= LEAST_RATIO else "below"
    return driver.Findings(
        tabulate(rates, columns),
        {"limit": LEAST_RATIO, "ratio": ratio, "texts_per_s": rates},
        [f"A document is {ratio} times as fast as lists: {held} {LEAST_RATIO:g}."],
    )


def measure_fairness(
    *,
    target: Annotated[
        str, typer.Option(help="The language of sentences and documents.")
    ] = "fr",
    kilobytes: Kilobytes = 10_000,
    documents: Annotated[int, typer.Option(help="Translated at a time.", min=1)] = 1,
    seconds: driver.Seconds = 30,
    rounds: driver.Rounds = 3,
    run_dir: driver.RunDir = driver.DEFAULT_RUN,
) -> driver.Findings:
    """One client's p95 while the running stack translates documents, against its p95 alone."""
    running = find_running(run_dir)
    # Documents are English, or German where English is the target.
    source = "en" if target != "en" else "de"
    content = write_document(source, int(kilobytes * 1000))
    asked = running.aim(list(map(write_request, draw(_SENTENCES, (target,)))))
    progress: list[Sequence[DocumentProgress]] = []

    def ask_alone(_: int) -> LoadFigures:
        return measure_closed(asked, clients=1, seconds=seconds)

    def ask_beside(_: int) -> LoadFigures:
        with ExitStack() as sent:
            jobs = [
                sent.enter_context(_upload(running.url, content, source, target))
                for _ in range(documents)
            ]
            begun = [_wait(job, _BEGIN_S, has_begun=True) for job in jobs]
            load = measure_closed(asked, clients=1, seconds=seconds)
            progress.append([_read(job) for job in begun])
        return load

    loads = driver.take_turns({ALONE: ask_alone, BESIDE: ask_beside}, rounds)
    return describe_fairness(loads, progress)


def describe_fairness(
    loads: Mapping[str, list[LoadFigures]],
    progress: Sequence[Sequence[DocumentProgress]],
) -> driver.Findings:
    """Two rows per round, and how far its documents were."""
    p95s = ([load.latencies.p95_ms for load in loads[way]] for way in (BESIDE, ALONE))
    ratio = find_ratio(*p95s)
    rows = [
        (str(number + 1), way, loads[way][number])
        for number in range(len(loads[ALONE]))
        for way in loads
    ]
    columns: Columns[tuple[str, str, LoadFigures]] = {
        "round": lambda row: row[0],
        "": lambda row: row[1],
        **nest(LOAD_COLUMNS, lambda row: row[2]),
    }
    done = (f"{job.texts_done} of {job.texts}" for jobs in progress for job in jobs)
    judged = "No sentence was translated."
    if ratio:
        held = driver.judge(ratio.median, MOST_P95)
        judged = f"p95 beside documents is {ratio} times that alone: {held}."
    return driver.Findings(
        tabulate(rows, columns),
        {"limit": MOST_P95, "p95_ratio": ratio, "loads": loads, "documents": progress},
        [f"texts translated: {', '.join(done)}", judged],
    )


def _send_list(url: str, texts: Sequence[str]) -> None:
    body = {"src_lang": "en", "tgt_lang": "fr", "src_text": texts}
    _check(requests.post(url, json=body, timeout=_TIMEOUT_S))


@contextmanager
def _upload(
    url: str, content: str, source: str, target: str
) -> Iterator[DocumentProgress]:
    """A plain text as a document, which is deleted in the end. Raises StackError."""
    answer = requests.post(
        f"{url}/documents",
        data={"src_lang": source, "tgt_lang": target},
        files={"file": ("document.txt", content.encode())},
        timeout=_TIMEOUT_S,
    )
    job = _parse(f"{url}/documents/{_check(answer)['id']}", answer)
    try:
        yield job
    finally:
        requests.delete(job.url, timeout=_TIMEOUT_S).raise_for_status()


def _wait(
    job: DocumentProgress, limit_s: float, *, has_begun: bool
) -> DocumentProgress:
    """The job once it is done or has begun. Raises StackError after the limit."""
    give_up_at = time.monotonic() + limit_s
    while time.monotonic() < give_up_at:
        job = _read(job)
        if job.status == "done" or (has_begun and job.texts_done):
            return job
        time.sleep(_PAUSE_S)
    raise StackError(f"{job.url} is {job.status} after {limit_s:g} s.")


def _read(job: DocumentProgress) -> DocumentProgress:
    """The same job as it is now. Raises StackError if it has failed."""
    found = _parse(job.url, requests.get(job.url, timeout=_TIMEOUT_S))
    if found.status == "failed":
        raise StackError(f"{job.url} has failed.")
    return found


def _parse(url: str, answer: requests.Response) -> DocumentProgress:
    status = _check(answer)
    texts, done = (status[name] or 0 for name in ("texts", "texts_done"))
    return DocumentProgress(url, status["status"], texts, done)


def _check(answer: requests.Response) -> dict[str, Any]:
    if not answer.ok:
        raise StackError(f"{answer.url} answered {answer.status_code}: {answer.text}")
    content: dict[str, Any] = answer.json()
    return content
