"""The gateway as it runs: Gunicorn with its own configuration, gevent, real sockets."""

import json
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from contract.npy import write_header
from gateway.settings import PREFIX
from tests.e2e.real_stack import read_metric, wait_until
from tests.gateway.conftest import LANGUAGES, TASKS, write_map
from tests.gateway.fake_torchserve import FakeTorchServe
from tests.scripted_server import LIMIT_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
AT_ONCE = 8
Running = tuple[str, psutil.Popen, FakeTorchServe]
#: A text so long that a separate process reads it.
ELEMENTS = "<b>" * 1000
WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
#: A row of 32 of these frames has 1.5 MiB.
FRAME = (128, 128, 3)
FRAME_BYTES = 128 * 128 * 3


def start(folder: Path, *, app: str = "gateway.app", **variables: str) -> psutil.Popen:
    """Start Gunicorn as supervisor does, on a free port; its log is in `folder`. An empty
    variable is left out."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
    map_path = write_map(folder / "map.json", LANGUAGES, TASKS)
    environment = inherited | {
        "BABELGATE_GATEWAY_BIND": "127.0.0.1:0",
        "BABELGATE_MAP": str(map_path),
        "BABELGATE_SENTENCES_AT_ONCE": str(AT_ONCE),
        "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"),
        "WEB_CONCURRENCY": "1",
    }
    gunicorn = [sys.executable, "-m", "gunicorn", "--config=gateway/gunicorn.conf.py"]
    gunicorn.append(f"{app}:create_app()")
    with (folder / "log").open("wb") as log:
        given = {k: v for k, v in (environment | variables).items() if v}
        return psutil.Popen(gunicorn, cwd=ROOT, env=given, stderr=log)


@contextmanager
def serve(folder: Path, **options: str) -> Iterator[tuple[str, psutil.Popen]]:
    """Start Gunicorn, and yield its URL, once it answers, and its master process."""
    master = start(folder, **options)
    try:
        url = find_url(folder)
        wait_until(lambda: is_alive(url))
        yield url, master
    finally:
        with suppress(psutil.NoSuchProcess):  # a test may have ended it
            master.terminate()
        master.wait(LIMIT_S)


@contextmanager
def serve_before_fake(folder: Path, **variables: str) -> Iterator[Running]:
    """Start Gunicorn in front of a fake TorchServe."""
    with FakeTorchServe(folder / "keys.json") as fake:
        places = {
            "BABELGATE_INFERENCE_URL": fake.url,
            "BABELGATE_MANAGEMENT_URL": fake.url,
            "BABELGATE_METRICS_URL": fake.url,
            "BABELGATE_KEY_FILE": str(fake.key_file),
        }
        with serve(folder, **places, **variables) as (url, master):
            yield url, master, fake


def find_url(folder: Path) -> str:
    """Wait for the address in the log, and return it."""
    log = folder / "log"
    wait_until(lambda: "Listening at" in log.read_text())
    found = re.search(r"Listening at: (\S+)", log.read_text())
    assert found
    return found[1]


def is_alive(url: str) -> bool:
    try:
        return requests.get(f"{url}/healthz", timeout=LIMIT_S).ok
    except requests.RequestException:
        return False


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One Gunicorn for all tests here: its URL, its master process, the fake behind it."""
    with serve_before_fake(tmp_path_factory.mktemp("gunicorn")) as running:
        yield running


@pytest.fixture
def url(running: Running) -> str:
    return running[0]


@pytest.fixture
def torchserve(running: Running) -> FakeTorchServe:
    """The fake, with its behaviours and counts reset."""
    fake = running[2]
    fake.will()
    fake.calls.clear()
    fake.most_at_once = 0
    return fake


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def post(url: str, text: str | list[str] = "Hello", **headers: str):
    wanted = WANTED | {"src_text": text}
    return requests.post(url, json=wanted, headers=headers, timeout=LIMIT_S)


def count_requests(url: str, route: str, status: int) -> float:
    """Return the number of requests with this route and status."""
    labels = f'route="{route}",status="{status}"'
    return read_metric(f"{url}/metrics", "babelgate_requests_total", labels)


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=LIMIT_S)


def begin(url: str, path: str, *headers: str) -> socket.socket:
    """Begin a request and return its connection."""
    client = connect(url)
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""])
    client.sendall(head.encode())
    return client


def send(url: str, *parts: bytes) -> bytes:
    with connect(url) as client:
        client.sendall(b"".join(parts))
        with client.makefile("rb") as answer:
            return answer.read()


@pytest.mark.parametrize("is_list", [False, True], ids=["document", "list"])
def test_sentences_and_texts_are_with_torchserve_at_the_same_time(
    url, torchserve, is_list
):
    torchserve.together = threading.Barrier(AT_ONCE)
    torchserve.will(*["together"] * 2 * AT_ONCE)
    lines = [f"Line {i}." for i in range(2 * AT_ONCE)]
    answer = post(url, lines if is_list else "\n".join(lines)).json()["translated"]
    assert (answer if is_list else answer.split("\n")) == [f"ko:{s}" for s in lines]
    assert torchserve.most_at_once == AT_ONCE


def test_a_small_request_gets_the_answer_that_gunicorn_would_send(url, torchserve):
    body = json.dumps(WANTED).encode()
    head = f"POST /translate HTTP/1.1\r\nX-Request-ID: a\r\nContent-Length: {len(body)}"
    answers = []
    with connect(url) as client, client.makefile("rb") as stream:
        # Gunicorn reads requests with a repeated header.
        for more in ("", "\r\nX-A: 1\r\nX-A: 2"):
            client.sendall(f"{head}{more}\r\n\r\n".encode() + body)
            lines = list(iter(stream.readline, b"\r\n"))
            length = next(int(w[15:]) for w in lines if w.startswith(b"Content-Length"))
            times = (b"Date: ", b"Server-Timing: ")
            kept = {line for line in lines if not line.startswith(times)}
            answers.append((kept, len(lines), stream.read(length)))
    assert answers[0] == answers[1]
    assert answers[0][2] == b'{"translated":"ko:Hello"}\n'


def test_a_request_that_waits_keeps_no_other_waiting(url, torchserve, background):
    torchserve.together = threading.Barrier(2)
    torchserve.will("together")
    waiting = background.submit(post, url)
    torchserve.wait_for_calls(1)
    assert is_alive(url)
    assert post(url, "b").json() == {"translated": "ko:b"}
    assert not waiting.done()
    torchserve.together.wait(LIMIT_S)
    assert waiting.result().json() == {"translated": "ko:Hello"}


def read_elements(url: str, **headers: str) -> requests.Response:
    """Send a text that a separate process reads, and that has no sentence."""
    wanted = WANTED | {"src_text": ELEMENTS, "format": "html"}
    return requests.post(url, json=wanted, headers=headers, timeout=LIMIT_S)


def test_a_text_that_is_read_for_too_long_is_a_504_and_keeps_no_other_waiting(
    running, background
):
    url, master, _ = running
    assert read_elements(url).json() == {"translated": ELEMENTS}
    ((reader,),) = (worker.children() for worker in master.children())
    reader.suspend()
    waiting = background.submit(read_elements, url)
    assert is_alive(url)
    assert post(url, "b").json() == {"translated": "ko:b"}
    assert not waiting.done()
    reader.resume()
    assert waiting.result().json() == {"translated": ELEMENTS}
    reader.suspend()
    late = read_elements(url, **{"X-Timeout-Ms": "50"})
    assert (late.status_code, late.json()["type"]) == (504, "urn:babelgate:deadline")
    assert read_elements(url).status_code == 200


CLOSE = b"Connection: close\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n"
LONG = b"GET /healthz?" + b"a" * 60_000 + b" HTTP/1.1\r\nConnection: close\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nConnection: close\r\n"
SMUGGLED = b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        pytest.param([b"hello\r\n\r\n"], 400, id="not HTTP"),
        pytest.param([GET, b"X: a\r\n" * 200, b"\r\n"], 431, id="many headers"),
        pytest.param([POST, SMUGGLED], 400, id="smuggled"),
        pytest.param([b"POST http://a HTTP/1.1\r\n", CLOSE], 400, id="no path"),
        pytest.param([b"OPTIONS * HTTP/1.1\r\n", CLOSE], 404, id="star"),
    ],
)
def test_what_is_not_http_gets_a_problem_document_too(url, parts, status):
    head, _, body = send(url, *parts).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Type: application/problem+json" in head
    document = json.loads(body)
    assert document["status"] == status
    assert f"X-Request-ID: {document['request_id']}".encode() in head


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([LONG], id="as long as nginx lets"),
        pytest.param([GET, b"X-Forwarded-SSL: on\r\n\r\n"], id="TLS before"),
        pytest.param([GET, b"Expect: 100-continue\r\n\r\n"], id="expect"),
    ],
)
def test_what_clients_and_proxies_add_does_no_harm(url, parts):
    assert b"HTTP/1.1 200 OK" in send(url, *parts)


def test_a_wrong_setting_stops_the_start_and_is_named(tmp_path):
    master = start(
        tmp_path,
        BABELGATE_KEYS="required",
        BABELGATE_DATABASE_URL="mysql://a:b@c/d",
        BABELGATE_RUN_DIR=str(tmp_path / "run"),
    )
    assert master.wait(LIMIT_S) != 0
    log = (tmp_path / "log").read_text()
    assert "BABELGATE_DATABASE_URL: expected sqlite:///FILE or " in log
    assert "a:b@" not in log


def test_a_killed_worker_comes_back_and_its_counts_stay(running):
    url, master, _ = running
    for _ in range(3):
        requests.get(f"{url}/languages", timeout=LIMIT_S)
    before = count_requests(url, "/languages", 200)
    (worker,) = master.children()
    worker.kill()
    wait_until(lambda: master.children() not in ([], [worker]) and is_alive(url))
    requests.get(f"{url}/languages", timeout=LIMIT_S)
    assert count_requests(url, "/languages", 200) == before + 1
    counters = Path(master.environ()["PROMETHEUS_MULTIPROC_DIR"])
    assert len([*counters.glob("*.db")]) == 2  # the new process goes on with both


@pytest.mark.parametrize(
    "header", [f"Content-Length: {FRAME_BYTES * 1000}", "Transfer-Encoding: chunked"]
)
def test_a_client_that_goes_while_it_sends_is_noticed(url, torchserve, header):
    before = count_requests(url, "/caption", 499)
    with begin(url, "/caption", header) as client:
        data = write_header((1000, *FRAME)) + bytes(FRAME_BYTES * 64)
        is_chunked = header.startswith("T")
        client.sendall(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
        torchserve.wait_for_calls(1)
    wait_until(lambda: count_requests(url, "/caption", 499) == before + 1)
    assert len(torchserve.calls) <= 2


def test_of_a_client_that_has_gone_no_further_row_is_sent(running, url, torchserve):
    before = count_requests(url, "/caption", 499)
    torchserve.together = threading.Barrier(5)
    torchserve.will(*["together"] * 4)
    data = write_header((32 * 5, *FRAME)) + bytes(32 * 5 * FRAME_BYTES)
    (worker,) = running[1].children()
    with begin(url, "/caption", f"Content-Length: {len(data)}") as client:
        client.sendall(data)
        torchserve.wait_for_calls(4)
        gone = client.getsockname()[1], psutil.CONN_CLOSE_WAIT
    wait_until(lambda: gone in list_connections(worker))
    torchserve.together.wait(LIMIT_S)
    wait_until(lambda: count_requests(url, "/caption", 499) == before + 1)
    assert len(torchserve.calls) == 4


def test_a_worker_that_ends_answers_what_still_comes_on_its_connections(running, url):
    """A GET needs Gunicorn's parser, which asks the closed listener for its name."""
    (worker,) = running[1].children()
    with connect(url) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        assert b"Connection: keep-alive" in client.recv(1 << 16)
        running[1].send_signal(signal.SIGHUP)
        listening = None, psutil.CONN_LISTEN
        wait_until(lambda: listening not in list_connections(worker))
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    worker.wait(LIMIT_S)


def list_connections(worker: psutil.Process) -> list[tuple[int | None, str]]:
    """Return the ports of a worker's clients, and the states of their connections."""
    found = worker.net_connections("tcp4")
    return [(one.raddr.port if one.raddr else None, one.status) for one in found]
