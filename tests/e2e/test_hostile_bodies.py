"""The real stack answers ten thousand hostile bodies; no worker ends, nothing grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from urllib3 import connection_from_url
from urllib3.exceptions import HTTPError

from deploy.stack import Stack
from tests.e2e.real_stack import processes
from tests.hostile_bodies import draw_bodies

pytestmark = pytest.mark.faults

ROUTES = ("/caption", "/classify", "/detect-objects")
COUNT = 10_000
#: Bodies after which every program has its working memory.
SETTLED = 2_000
CLIENTS = 8
#: What the whole stack may have grown by between the two looks: less than one leaked row in
#: a hundred would be.
GROWTH_BYTES = 80_000_000


def send(url: str, bodies: Iterable[tuple[int, tuple[bytes, str]]]) -> Counter[int]:
    """How often each status was answered; 0 for no answer at all."""

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
