"""The stack that is running here: `python -m benchmarks stack` puts load on port 7777,
`documents` compares documents with lists of the same texts, `fairness` asks for single
sentences beside them, and `page` types into the web page.
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
from playwright.sync_api import Page, sync_playwright

from benchmarks import driver, report
from benchmarks.instruments.load import (
    LOAD_COLUMNS,
    LoadFigures,
    list_cpu,
    measure_closed,
    measure_open,
)
from benchmarks.instruments.running import find_running
from benchmarks.instruments.workload import (
    REQUESTS,
    MeasuredTask,
    draw,
    draw_requests,
    write_document,
    write_request,
)
from deploy.programs import CHROMIUM, find, install
from deploy.stack import StackError

#: The targets: a document against lists, and one client's 95th percentile beside documents
#: against that alone.
_RATE_GOAL = report.FigureGoal("texts/s", 0.9, is_least=True)
_P95_GOAL = report.FigureGoal("p95 ms", 3.0)
_SENTENCES = 500
_TIMEOUT_S, _PAUSE_S = 120, 0.2
#: For a document to be read and its first sentences translated, and for all of it.
_BEGIN_S, _END_S = 120, 3600

#: The target of the page: milliseconds on top of the API's.
_PAGE_MS = 150
_SOURCE, _TARGET = "en", "fr"
_BYTES_PER_SENTENCE = 200
#: Between two keys; people take longer.
_KEY_MS = 30
#: Notes when a key was pressed last and when the output was there, in `window.measured`.
_NOTE = """() => {
  const given = document.getElementById("given"), output = document.getElementById("output");
  window.measured = { typed: 0, shown: 0 };
  given.addEventListener("input", () => (window.measured.typed = performance.now()));
  new MutationObserver(() => (window.measured.shown = performance.now()))
    .observe(output, { childList: true });
}"""
#: The page's own milliseconds, and those of the requests after the last key.
_READ = """() => {
  const { typed, shown } = window.measured;
  const asked = performance.getEntriesByType("resource")
    .filter((entry) => entry.startTime >= typed && /identify|translate/.test(entry.name));
  const api = asked.reduce((all, entry) => all + entry.responseEnd - entry.startTime, 0);
  performance.clearResourceTimings();
  return [shown - typed - api, api];
}"""


def answer(
    *,
    clients: str,
    rates: str,
    seconds: float,
    task: MeasuredTask,
    target: str,
    connections: int,
    run_dir: Path,
) -> report.Findings:
    """Requests/s, latency, errors, CPU and memory of the running stack.

    In a closed loop, each client waits for its answer before it asks again. In an open
    loop, requests arrive at random, whatever happens to the others, and their time counts
    from the planned arrival.
    """
    planned = driver.read_rates(rates)
    drawn = draw_requests(task, REQUESTS, targets=driver.read_words(target))
    asked = find_running(run_dir).aim(drawn)
    loads = []
    for number in driver.read_numbers(clients) if clients else []:
        driver.say(f"{number} clients")
        loads.append(measure_closed(asked, clients=number, seconds=seconds))
    for rate in planned:
        driver.say(f"{rate:g} arrivals/s")
        loads.append(
            measure_open(asked, rate=rate, seconds=seconds, connections=connections)
        )
    return describe(loads)


def describe(loads: Sequence[LoadFigures]) -> report.Findings:
    """A row per load, with the CPU of every program that was counted, and latencies over the
    throughput of each kind of loop."""
    columns: report.Columns[LoadFigures] = {
        "loop": lambda load: load.loop,
        "clients or planned/s": lambda load: f"{load.level:g}",
        **LOAD_COLUMNS,
        "lag p99 ms": lambda load: load.lag_p99_ms,
        **list_cpu(loads),
    }
    memory = loads[-1].memory_mb if loads else {}
    held = ", ".join(f"{program} {report.show(mb)}" for program, mb in memory.items())
    statuses = (
        f"{load.loop} {load.level:g}: {report.list_counts(load.statuses)}"
        for load in loads
        if load.errors
    )
    charts = []
    for loop, some in report.group(loads, lambda load: load.loop).items():
        lines = {
            name: [(x.requests_per_s, ms) for x in some if (ms := read(x)) is not None]
            for name, read in LOAD_COLUMNS.items()
            if name.endswith(" ms")
        }
        lines = {name: points for name, points in lines.items() if points}
        charts.append(
            report.Chart(f"{loop.capitalize()} loop", "requests/s", "ms", lines)
        )
    return report.Findings(
        report.tabulate(loads, columns),
        {"loads": loads},
        remarks=(*statuses, f"memory, MB: {held}"),
        charts=charts,
    )


@dataclass(frozen=True)
class DocumentProgress:
    """A document on the stack at `url`, and how far it is."""

    url: str
    status: str
    texts: int
    texts_done: int


def compare_with_lists(
    *, kilobytes: float, texts: int, clients: int, rounds: int, run_dir: Path
) -> report.Findings:
    """Texts per second of a document on the running stack, against those of lists."""
    url = find_running(run_dir).url

    def send_lists(lines: Sequence[str]) -> None:
        lists = [lines[place : place + texts] for place in range(0, len(lines), texts)]
        body = {"src_lang": "en", "tgt_lang": "fr"}
        with ThreadPoolExecutor(clients) as pool:
            asked = [
                pool.submit(_ask, "POST", url, json=body | {"src_text": some})
                for some in lists
            ]
        for one in asked:
            one.result()

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
    return report.compare_turns(rates, {"texts/s": lambda rate: rate}, goal=_RATE_GOAL)


def measure_fairness(
    *,
    target: str,
    kilobytes: float,
    documents: int,
    seconds: float,
    rounds: int,
    run_dir: Path,
) -> report.Findings:
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
            uploads = (
                _upload(running.url, content, source, target) for _ in range(documents)
            )
            jobs = [sent.enter_context(upload) for upload in uploads]
            for job in jobs:
                _wait(job, _BEGIN_S, has_begun=True)
            load = measure_closed(asked, clients=1, seconds=seconds)
            progress.extend(map(_read, jobs))
        return load

    ways = {"beside documents": ask_beside, "alone": ask_alone}
    loads = {"": driver.take_turns(ways, rounds)}
    found = report.compare_turns(loads, LOAD_COLUMNS, goal=_P95_GOAL)
    found.results["documents"] = progress
    done = ", ".join(f"{job.texts_done} of {job.texts}" for job in progress)
    return replace(found, remarks=[f"texts translated: {done}", *found.remarks])


def _ask(method: str, url: str, **content: Any) -> Any:
    """The answer's JSON. Raises StackError for a refusal."""
    answered = requests.request(method, url, timeout=_TIMEOUT_S, **content)
    if not answered.ok:
        raise StackError(f"{url} answered {answered.status_code}: {answered.text}")
    return answered.json() if answered.content else None


@contextmanager
def _upload(url: str, content: str, source: str, target: str) -> Iterator[str]:
    """The address of a plain text as a document, which is deleted in the end. Raises
    StackError."""
    fields = {"src_lang": source, "tgt_lang": target}
    files = {"file": ("document.txt", content.encode())}
    job = _ask("POST", f"{url}/documents", data=fields, files=files)
    address = f"{url}/documents/{job['id']}"
    try:
        yield address
    finally:
        _ask("DELETE", address)


def _wait(url: str, limit_s: float, *, has_begun: bool) -> None:
    """Wait until a document is done or has begun. Raises StackError after the limit."""
    give_up_at = time.monotonic() + limit_s
    job = _read(url)
    while job.status != "done" and not (has_begun and job.texts_done):
        if time.monotonic() >= give_up_at:
            raise StackError(f"{url} is {job.status} after {limit_s:g} s.")
        time.sleep(_PAUSE_S)
        job = _read(url)


def _read(url: str) -> DocumentProgress:
    """A document as it is now. Raises StackError if it has failed."""
    job = _ask("GET", url)
    if job["status"] == "failed":
        raise StackError(f"{url} has failed.")
    return DocumentProgress(
        url, job["status"], job["texts"] or 0, job["texts_done"] or 0
    )


def measure_page(*, sentences: int, run_dir: Path) -> report.Findings:
    """Measure the time that the page adds to that of the API, with the running stack."""
    lines = write_document(_SOURCE, sentences * _BYTES_PER_SENTENCE).splitlines()
    typed = list(dict.fromkeys(filter(None, lines)))[:sentences]
    with open_page(find_running(run_dir).url) as page:
        own, api = zip(*time_typing(page, typed), strict=True)
    most = max(own)
    return report.Findings(
        report.FigureTable(
            ("takes", "ms"),
            (
                ("the page", str(report.spread(own))),
                ("the API", str(report.spread(api))),
            ),
        ),
        {"limit_ms": _PAGE_MS, "page_ms": own},
        [f"The page takes {most:.0f} ms at most: {report.judge(most, _PAGE_MS)} ms."],
    )


@contextmanager
def open_page(url: str) -> Iterator[Page]:
    """The page of a stack in a Chromium."""
    program = find(CHROMIUM) or install(CHROMIUM)[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        page = browser.new_page(locale=_SOURCE)
        page.goto(f"{url}/?target={_TARGET}")
        page.wait_for_selector("html[data-ready]")
        yield page
        browser.close()


def time_typing(page: Page, sentences: Sequence[str]) -> list[tuple[float, float]]:
    """The page's own milliseconds and the API's, for each sentence. A language that is not
    clear would not be translated, so the first request names it."""
    page.select_option("#source", _SOURCE)
    page.evaluate(_NOTE)
    measured = []
    for sentence in sentences:
        page.fill("#given", "")
        page.keyboard.type(sentence, delay=_KEY_MS)
        page.wait_for_function(
            "() => document.querySelector('#output .sentence')"
            " && document.querySelector('#output').ariaBusy === 'false'"
            " && window.measured.shown > window.measured.typed"
        )
        own, api = page.evaluate(_READ)
        measured.append((own, api))
    return measured
