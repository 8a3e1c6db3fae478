"""A real stack with more requests than it can answer in time."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from itertools import count
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil
import requests
from urllib3 import BaseHTTPResponse

from deploy.stack import Stack
from gateway.settings import Settings
from tests.e2e.real_stack import VICTIMS, ask_from, processes, read_metric, wait_until
from tests.handlers.encoding import write_npy
from torchserve_backend.management import read_key

EN_FR = {"src_lang": "en", "tgt_lang": "fr"}
BULK, MODEST = "127.0.0.2", "127.0.0.3"
TIMEOUT_S = 60
AT_ONCE = Settings.model_fields["sentences_at_once"].default
REFUSALS = {"urn:babelgate:queue-full", "urn:babelgate:too-many-connections"}
#: More than a model translates within SHORT_MS, on any machine.
SENTENCES, SHORT_MS = 1000, 200
#: Each upload has 8 MiB.
UPLOADS, SHAPE = 40, (1024, 2731, 3)

#: Equal sentences in a batch would be one row.
_numbers = count(1)


def is_refusal(reply: BaseHTTPResponse) -> bool:
    """Whether a client got a 429 of ours with a `Retry-After`."""
    if reply.status != 429 or reply.json()["type"] not in REFUSALS:
        return False
    return int(reply.headers.get("Retry-After", "0")) >= 1


def write_sentences(number: int) -> str:
    return "\n".join(f"Room {next(_numbers)}." for _ in range(number))


def ask(
    url: str,
    text: Any,
    target: str = "fr",
    *,
    address: str = "127.0.0.1",
    limit_ms: int = 30_000,
) -> BaseHTTPResponse:
    body = EN_FR | {"src_text": text, "tgt_lang": target}
    headers = {"X-Timeout-Ms": str(limit_ms)}
    return ask_from(address, "POST", f"{url}/translate", json=body, headers=headers)


def ask_all(url: str, number: int, *, limit_ms: int = 30_000) -> list[BaseHTTPResponse]:
    texts = [write_sentences(1) for _ in range(number)]
    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(partial(ask, url, limit_ms=limit_ms), texts))


def count_waiting(stack: Stack, model: str) -> float:
    url = f"{stack.url}/metrics"
    return read_metric(url, "babelgate_waiting_rows", f'="{model}"')


def count_sent(stack: Stack, model: str) -> float:
    """Count the rows that have reached TorchServe."""
    return read_metric(stack.metrics_url, "ts_inference_requests_total", f'="{model}"')


def count_dropped(stack: Stack, model: str) -> float:
    return read_metric(stack.metrics_url, "BabelgateDroppedRows", f'="{model}"')


@contextmanager
def stopped(stack: Stack, model: str) -> Iterator[None]:
    """Stop a model's worker during the block."""
    headers = {"Authorization": f"Bearer {read_key(stack.key_file, 'management')}"}
    url = f"{stack.management_url}/models/{model}"
    (described,) = requests.get(url, headers=headers, timeout=TIMEOUT_S).json()
    (worker,) = (psutil.Process(each["pid"]) for each in described["workers"])
    worker.suspend()
    try:
        yield
    finally:
        worker.resume()


def test_rows_of_a_client_that_hangs_up_are_not_computed(stack: Stack):
    assert ask(stack.url, write_sentences(1)).status == 200
    sent, dropped = count_sent(stack, "fr"), count_dropped(stack, "fr")
    with stopped(stack, "fr"):
        client = HTTPConnection(urlsplit(stack.url).netloc, timeout=TIMEOUT_S)
        body = EN_FR | {"src_text": write_sentences(3 * AT_ONCE)}
        client.request("POST", "/", json.dumps(body))
        wait_until(lambda: count_waiting(stack, "fr") == 2 * AT_ONCE)
        # Rows still on their way to TorchServe would end with the client.
        wait_until(lambda: count_sent(stack, "fr") == sent + AT_ONCE)
        client.close()
        wait_until(lambda: count_waiting(stack, "fr") == 0)
    wait_until(lambda: count_dropped(stack, "fr") == dropped + AT_ONCE)
    assert ask(stack.url, write_sentences(1)).status == 200


def test_a_client_with_many_texts_leaves_others_their_share(stack: Stack):
    is_over = threading.Event()

    def ask_for_much() -> list[int]:
        statuses = []
        while not is_over.is_set():
            texts = [write_sentences(10) for _ in range(40)]
            statuses.append(ask(stack.url, texts, address=BULK).status)
        return statuses

    def count_overtaken() -> float:
        """Count the rows that the model gets before it answers a client that retries."""
        status = 429
        while status == 429:
            before = count_sent(stack, "fr")
            status = ask(stack.url, write_sentences(1), address=MODEST).status
        assert status == 200
        return count_sent(stack, "fr") - before

    with ThreadPoolExecutor(4) as threads:
        bulk = [threads.submit(ask_for_much) for _ in range(4)]
        try:
            wait_until(lambda: count_waiting(stack, "fr") > AT_ONCE)
            overtaken = [count_overtaken() for _ in range(20)]
        finally:
            is_over.set()
    assert median(overtaken) < 400, "the texts of one request of the other client"
    assert {status for one in bulk for status in one.result()} <= {200, 429}


def test_what_cannot_be_done_in_time_is_refused_before_it_is_begun(stack: Stack):
    ask_all(stack.url, 2 * AT_ONCE)  # now all gateway processes have an estimate
    with ThreadPoolExecutor(AT_ONCE) as threads:  # and their reader processes
        long = "One sentence.\n" * SENTENCES
        list(threads.map(lambda _: ask(stack.url, long), range(AT_ONCE)))
    wait_until(lambda: count_waiting(stack, "fr") == 0)
    sent = count_sent(stack, "fr")
    text = write_sentences(SENTENCES)
    replies = [ask(stack.url, text, limit_ms=SHORT_MS) for _ in range(10)]
    # On a busy machine the deadline may pass before all of a text is read.
    assert all(is_refusal(reply) or reply.status == 504 for reply in replies), [
        reply.data for reply in replies
    ]
    assert count_sent(stack, "fr") == sent

    def is_translated() -> bool:
        """Whether the text is translated within the usual time limit."""
        translated = ask(stack.url, text).json().get("translated", "")
        return bool(translated.count("\n") == SENTENCES - 1)

    wait_until(is_translated)


def test_a_worker_that_stands_still_costs_its_own_language_alone(stack: Stack):
    for target in ("fr", "de"):
        assert ask(stack.url, write_sentences(1), target).status == 200
    with stopped(stack, "fr"):
        replies = ask_all(stack.url, 16, limit_ms=2000)
        others = [ask(stack.url, write_sentences(1), "de") for _ in range(5)]
        replies += ask_all(stack.url, 16, limit_ms=500)
    assert {reply.status for reply in replies} <= {429, 503, 504}
    assert all(reply.json()["type"].startswith("urn:babelgate:") for reply in replies)
    assert {reply.status for reply in others} == {200}
    wait_until(lambda: ask(stack.url, write_sentences(1)).status == 200)
    assert {reply.status for reply in ask_all(stack.url, 16)} == {200}


def test_many_large_uploads_do_not_end_java(vision: Stack):
    frames = np.zeros((1, *SHAPE), np.uint8)
    body, server = write_npy(frames), VICTIMS["java"](vision)

    def upload(_: int) -> int:
        response = requests.post(f"{vision.url}/classify", body, timeout=120)
        return response.status_code

    with ThreadPoolExecutor(UPLOADS) as clients:
        statuses = Counter(clients.map(upload, range(UPLOADS)))
    assert set(statuses) <= {200, 429}, statuses
    assert statuses[200]
    assert server.is_running()
    assert server in processes(vision)
