"""`kill -9` of Java, with it all workers, under load: clients get answers, and the stack heals
itself. `tests/chaos` kills all the others.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import requests

from deploy.stack import Stack
from tests.chaos.scene import VICTIMS
from tests.e2e.real_stack import is_ready, wait_until

CLIENTS = 12
BODY = {"src_lang": "en", "src_text": "Good evening"}
TARGETS = ("ko", "fr", "ar", "ja")
LIMIT_S = 45


@contextmanager
def load(url: str) -> Iterator[Counter[str]]:
    """Counts what clients get that ask without pause, by status; the rest is `wrong`."""
    outcomes: Counter[str] = Counter()
    stop = threading.Event()

    def ask(number: int) -> None:
        body = BODY | {"tgt_lang": TARGETS[number % len(TARGETS)]}
        while not stop.is_set():
            outcomes[_ask_once(url, body)] += 1
            stop.wait(0.05)

    clients = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        wait_until(lambda: outcomes["200"] > CLIENTS)
        yield outcomes
    finally:
        stop.set()
        for client in clients:
            client.join(LIMIT_S)
        assert not any(client.is_alive() for client in clients)


def _ask_once(url: str, body: dict[str, str]) -> str:
    try:
        response = requests.post(url, json=body, timeout=LIMIT_S)
    except requests.Timeout:
        return "hung"
    except requests.ConnectionError:
        return "refused"
    if response.ok:
        return "200" if response.json()["translated"] else "wrong"
    is_problem = response.headers["Content-Type"] == "application/problem+json"
    return str(response.status_code) if is_problem else "wrong"


def test_the_stack_heals_after_java_is_killed(stack: Stack):
    wait_until(lambda: is_ready(stack.url))
    process = VICTIMS["java"](stack)
    with load(stack.url) as outcomes:
        process.kill()
        process.wait(10)
        wait_until(lambda: is_replaced(stack, "java", process))
        wait_until(lambda: is_ready(stack.url), limit_s=LIMIT_S * 2)
        before = outcomes["200"]
        wait_until(lambda: outcomes["200"] > before + CLIENTS)
    assert set(outcomes) <= {"200", "429", "503", "504"}, outcomes


def is_replaced(stack: Stack, name: str, process: psutil.Process) -> bool:
    try:
        return VICTIMS[name](stack).pid != process.pid
    except (psutil.NoSuchProcess, StopIteration, IndexError):
        return False


def test_a_reload_drops_no_request(stack: Stack, deploy: Callable[..., str]):
    wait_until(lambda: is_ready(stack.url))
    old = {p.pid for p in stack.find_leader("gateway").children()}
    with load(stack.url) as outcomes:
        assert "Reloaded" in deploy("reload")
        wait_until(
            lambda: not old & {p.pid for p in stack.find_leader("gateway").children()}
        )
        before = outcomes["200"]
        wait_until(lambda: outcomes["200"] > before + CLIENTS)
    assert set(outcomes) == {"200"}, outcomes
