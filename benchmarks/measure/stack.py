"""Measures the running stack: `python -m benchmarks stack` puts load on port 7777, and
`fairness` sends single sentences while it translates a document.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from urllib3.filepost import encode_multipart_formdata

from benchmarks import driver, report
from benchmarks.instruments import load
from benchmarks.instruments.load import CLOSED, LOAD_COLUMNS, OPEN, LoadFigures
from benchmarks.instruments.running import Running, find_running, wait_until
from benchmarks.instruments.workload import (
    REQUESTS,
    MeasuredTask,
    draw,
    draw_requests,
    write_document,
    write_request,
)
from clients.server import ApiClient, ApiRequest

_SOURCE, _TARGET = "en", "fr"
_SENTENCES = 500
#: The time limit for reading a document and translating its first sentences.
_BEGIN_S = 120


def answer(
    *, clients: str, rates: str, seconds: float, task: MeasuredTask, run_dir: Path
) -> report.Findings:
    """Measure requests/s, latency, errors, CPU and memory of the running stack.

    In a closed loop, each client waits for its answer before it asks again. In an open
    loop, requests arrive at random, independently of other requests, and latency counts from
    the planned arrival.
    """
    levels = [(OPEN, rate) for rate in driver.read_numbers(rates, float)]
    levels = [(CLOSED, n) for n in driver.read_numbers(clients)] + levels
    asked = find_running(run_dir).aim(draw_requests(task, REQUESTS))
    loads: list[LoadFigures] = []
    for loop, level in levels:
        driver.say(f"{loop} loop, {level:g}")
        loads.append(load.measure(asked, loop, level, seconds=seconds)[0])
    times = ("p50 ms", "p95 ms", "p99 ms")
    charts = [report.plot(loads, "requests/s", ms, line="loop") for ms in times]
    return report.Findings(report.tabulate(loads), loads, charts=charts)


def measure_fairness(
    *, kilobytes: float, seconds: float, rounds: int, run_dir: Path
) -> report.Findings:
    """Compare a client's p95 alone and while the running stack translates a document."""
    running = find_running(run_dir)
    content = write_document(_SOURCE, int(kilobytes * 1000))
    asked = running.aim(list(map(write_request, draw(_SENTENCES, (_TARGET,)))))
    done: list[str] = []

    def ask_beside() -> LoadFigures:
        with _upload(running, content) as look:
            wait_until(lambda: look()["texts_done"], "it has begun", _BEGIN_S)
            figures = load.measure_closed(asked, clients=1, seconds=seconds)
            progress = look()
        done.append(f"{progress['texts_done']} of {progress['texts']}")
        return figures

    ways: Mapping[str, Callable[[], LoadFigures]] = {
        "beside a document": ask_beside,
        "alone": partial(load.measure_closed, asked, clients=1, seconds=seconds),
    }
    found = driver.compare(ways, rounds, LOAD_COLUMNS)
    return replace(found, remarks=[f"texts done: {', '.join(done)}"])


@contextmanager
def _upload(running: Running, content: str) -> Iterator[Callable[[], Any]]:
    """Upload a plain text as a document, and delete it at the end. Yields a function that
    returns its state. Both raise ServerError."""
    languages = {"src_lang": _SOURCE, "tgt_lang": _TARGET}
    form, kind = encode_multipart_formdata(
        {**languages, "file": ("document.txt", content.encode())}
    )
    with ApiClient(running.url, headers=running.headers) as server:
        job = server.ask(ApiRequest("POST", "/documents", [form], kind))
        path = f"/documents/{job['id']}"
        try:
            yield partial(server.ask, ApiRequest("GET", path))
        finally:
            server.ask(ApiRequest("DELETE", path))
