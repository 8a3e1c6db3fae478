"""The real stack answers three thousand hostile bodies; no worker ends, nothing grows. While
the gateway gets hostile forms, it answers everybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import psutil
import pytest
from urllib3 import connection_from_url
from urllib3.exceptions import HTTPError

from benchmarks.instruments.generator import Request, Target
from benchmarks.measure.hostile import aim
from deploy.stack import Stack
from tests.e2e.real_stack import processes
from tests.e2e.reverse_proxy import start_proxy
from tests.hostile_bodies import draw_bodies

pytestmark = pytest.mark.faults

ROUTES = ("/caption", "/classify", "/detect-objects")
COUNT = 3_000
#: Bodies after which every program has its working memory.
SETTLED = 1_000
CLIENTS = 8
#: The growth of the whole stack between the two looks: less than one leaked row in
#: twenty-five would be.
GROWTH_BYTES = 80_000_000


def send(url: str, bodies: Iterable[tuple[int, tuple[bytes, str]]]) -> Counter[int]:
    """Send requests and count each status; 0 stands for no answer at all."""

    def ask(numbered: tuple[int, tuple[bytes, str]]) -> int:
        number, (body, content_type) = numbered
        route = ROUTES[number % len(ROUTES)]
        headers = {"Content-Type": content_type}
        try:
            return pool.request("POST", route, body=body, headers=headers).status
        except HTTPError:
            return 0

    with (
        connection_from_url(url, maxsize=CLIENTS, retries=False, timeout=120) as pool,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        return Counter(threads.map(ask, bodies))


def measure(stack: Stack) -> tuple[int, set[tuple[int, str]]]:
    """Bytes of all the stack's processes, and which they are."""
    family = processes(stack)
    memory = sum(process.memory_full_info().pss for process in family)
    return memory, {(process.pid, process.name()) for process in family}


@pytest.mark.timeout(900)
def test_hostile_bodies_are_answered_and_leave_nothing_behind(vision: Stack):
    bodies = list(enumerate(draw_bodies(COUNT)))
    statuses = send(vision.url, bodies[:SETTLED])
    memory, family = measure(vision)
    statuses += send(vision.url, bodies[SETTLED:])
    memory_after, family_after = measure(vision)
    assert set(statuses) <= {200, 400, 413, 415, 422}, statuses
    assert sum(statuses.values()) == COUNT
    assert family_after == family, "a process has ended or come"
    assert memory_after - memory < GROWTH_BYTES
    assert all(psutil.pid_exists(pid) for pid, _ in family)


WANTED = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "ko"}


@pytest.mark.timeout(300)
def test_hostile_forms_are_in_nobodys_way(tmp_path: Path):
    """While they are answered, one other client gets a quarter as many answers: each of them
    once held the loop for a second."""

    def ask(target: Target, request: Request) -> int:
        return pool.request(
            "POST", request.path, body=request.body, headers=target.headers
        ).status

    with (
        start_proxy(tmp_path) as proxy,
        connection_from_url(proxy.url, maxsize=30, retries=False, timeout=60) as pool,
        ThreadPoolExecutor(20) as threads,
    ):
        hostile = [
            threads.submit(ask, target, request)
            for target in aim(proxy.url) * 4
            for request in target.requests
        ]
        others: Counter[int] = Counter()
        while wait(hostile, timeout=0).not_done:
            others[pool.request("GET", "/healthz").status] += 1
            others[pool.request("POST", "/", json=WANTED).status] += 1
    assert set(others) == {200}
    assert {one.result() for one in hostile} <= {400, 413, 422, 429}
    assert others.total() >= len(hostile) / 4
