"""Requests of every method to every route leak no files, greenlets or memory."""

import gc
import gzip
import os
import tracemalloc
from collections import Counter
from typing import Any

import gevent
import pytest
from flask.testing import FlaskClient
from gevent.threadpool import _WorkerGreenlet
from greenlet import greenlet  # type: ignore[import-untyped]

from documents.storage import NOBODY
from gateway.access.keys import Grant, read_id
from tests.gateway.conftest import keep

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS", "BREW")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=x"
BODIES = [
    (b'{"src_text": "Hello", "q": "Hello", "tgt_lang": "ko"}', JSON, ""),
    (b"q=Hello&target=ko&key&" + b"%41&" * 2_000, FORM, ""),
    (gzip.compress(b" " * 90_000), JSON, "gzip"),
    (b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n--x', PARTS, ""),
]
#: The id of a finished document.
ID = "0123456789abcdef0123456789abcdef"
#: The memory that a round may leak: less than one small body per hundred requests.
MOST_BYTES = 100_000


def list_paths(client: FlaskClient, names: dict[str, str]) -> list[str]:
    """List the paths of all routes, with these names as parameters, or `a`."""
    paths = set()
    for rule in client.application.url_map.iter_rules():
        path = rule.rule
        for argument in rule.arguments:
            path = path.replace(f"<{argument}>", names.get(argument, "a"))
        paths.add(path)
    return sorted(paths)


def send_all(
    client: FlaskClient, names: dict[str, str], headers: dict[str, str]
) -> Counter[int]:
    """Send every method and body to every route, and count the statuses. DELETE names only
    things that do not exist, so that the next round finds the same."""
    statuses: Counter[int] = Counter()

    def send(method: str, path: str, **given: Any) -> None:
        given["headers"] = headers | given.get("headers", {})
        with client.open(path, method=method, **given) as answer:
            statuses[answer.status_code] += 1

    for path in list_paths(client, names):
        for method in METHODS:
            send(method, path)
        for body, kind, encoding in BODIES:
            packed = {"Content-Encoding": encoding} if encoding else {}
            send("POST", path, data=body, content_type=kind, headers=packed)
    for path in list_paths(client, {}):
        send("DELETE", path)
    send("GET", "/metrics")  # exports the counters now, and not in the next round
    gevent.wait(timeout=1)  # for greenlets that end soon
    return statuses


def measure() -> tuple[int, int]:
    """Count the open files and greenlets of this process, without the two greenlets of each
    pool thread: a busy pool starts more threads, up to its size."""
    gc.collect()
    objects = gc.get_objects()
    alive = [o for o in objects if issubclass(type(o), greenlet) and bool(o)]
    threads = sum(isinstance(each, _WorkerGreenlet) for each in alive)
    return len(os.listdir("/proc/self/fd")), len(alive) - 2 * threads


@pytest.mark.parametrize(
    "keys_are",
    [
        pytest.param("required", marks=pytest.mark.slow),
        pytest.param("off", marks=pytest.mark.faults),
        pytest.param("required and not sent", marks=pytest.mark.faults),
    ],
)
def test_every_method_on_every_route_leaves_nothing_behind(
    make_client, make_guarded, keys, tmp_path, keys_are
):
    client = make_client() if keys_are == "off" else make_guarded()
    token = "" if keys_are == "off" else keys.add("cat", Grant())
    owner = read_id(token) or NOBODY
    state = {"status": "done", "owner": owner, "expires_at": 2e9}
    keep(tmp_path / "documents", **{ID: state | {"media_type": "text/plain"}})
    names = {"document_id": ID, "name": f"{owner}-{ID}-KEY-a.ko.txt"}
    is_sent = keys_are != "required and not sent"
    headers = {"Authorization": f"Bearer {token}"} if is_sent else {}
    send_all(client, names, headers)
    before = measure()
    tracemalloc.start()
    try:
        statuses = send_all(client, names, headers)
        left = measure()
        left_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A greenlet of the first round may have ended since.
    files, greenlets = left
    assert files == before[0]
    assert greenlets <= before[1]
    assert left_bytes < MOST_BYTES
    assert {200, 404, 405} <= set(statuses)
    assert 500 not in statuses
