"""Documents that the running stack translates: `python -m benchmarks documents` compares them
with lists of the same texts, `fairness` asks for single sentences beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import requests

from benchmarks import driver
from benchmarks.instruments.load import LOAD_COLUMNS, LoadFigures, measure_closed
from benchmarks.instruments.running import find_running
from benchmarks.instruments.workload import draw, write_document, write_request
from benchmarks.report import FigureGoal, Findings, compare_turns
from deploy.stack import StackError

#: The targets: a document against lists, and one client's 95th percentile beside documents
#: against that alone.
_RATE_GOAL = FigureGoal("texts/s", 0.9, is_least=True)
_P95_GOAL = FigureGoal("p95 ms", 3.0)
_SENTENCES = 500
_TIMEOUT_S, _PAUSE_S = 120, 0.2
#: For a document to be read and its first sentences translated, and for all of it.
_BEGIN_S, _END_S = 120, 3600


@dataclass(frozen=True)
class DocumentProgress:
    """A document on the stack at `url`, and how far it is."""

    url: str
    status: str
    texts: int
    texts_done: int


def compare_with_lists(
    *, kilobytes: float, texts: int, clients: int, rounds: int, run_dir: Path
) -> Findings:
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

    ways = {"a document": send_document, "lists": send_lists}
    turns = {way: partial(measure, send) for way, send in ways.items()}
    rates = {"": driver.take_turns(turns, rounds)}
    return compare_turns(rates, {"texts/s": lambda rate: rate}, goal=_RATE_GOAL)


def measure_fairness(
    *,
    target: str,
    kilobytes: float,
    documents: int,
    seconds: float,
    rounds: int,
    run_dir: Path,
) -> Findings:
    """One client's p95 while the running stack translates documents, against its p95 alone."""
    running = find_running(run_dir)
    # Documents are English, or German where English is the target.
    source = "en" if target != "en" else "de"
    content = write_document(source, int(kilobytes * 1000))
    asked = running.aim(list(map(write_request, draw(_SENTENCES, (target,)))))
    progress: list[DocumentProgress] = []

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
            progress.extend(map(_read, begun))
        return load

    ways = {"beside documents": ask_beside, "alone": ask_alone}
    loads = {"": driver.take_turns(ways, rounds)}
    found = compare_turns(loads, LOAD_COLUMNS, goal=_P95_GOAL)
    found.results["documents"] = progress
    done = ", ".join(f"{job.texts_done} of {job.texts}" for job in progress)
    return replace(found, remarks=[f"texts translated: {done}", *found.remarks])


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
