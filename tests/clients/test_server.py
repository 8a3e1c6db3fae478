"""Requests to a server that fails, responds slowly or refuses."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from clients.errors import ServerError
from clients.frames import FrameSize
from clients.server import ApiClient, ApiRequest, RetryPolicy, RunStopped
from contract.npy import write_header
from tests.clients.drawing import draw_number
from tests.fake_api import TASKS
from tests.programs import make_certificate
from tests.webhook_receiver import WebhookReceiver

choose_delay = RetryPolicy.choose_delay


def make_body(*numbers: int) -> tuple[bytes, memoryview]:
    pixels = np.stack([draw_number(number, 32, 64) for number in numbers])
    return write_header(pixels.shape), pixels.data.cast("B")


def test_captions_come_for_arrays_over_one_connection(stack, server):
    assert server.caption(make_body(7, 200), 2) == ["number 7", "number 200"]
    assert server.caption(make_body(1), 1) == ["number 1"]
    assert stack.arrays[0].shape == (2, 32, 64, 3)
    assert stack.asked[0].headers["Content-Type"] == "application/octet-stream"
    assert len(stack.connections) == 1


@pytest.mark.parametrize(
    "failure",
    "unavailable queue-full retry-nonsense retry-far deep-fault reset cut".split(),
)
def test_what_may_pass_is_asked_again(stack, server, failure):
    stack.will(failure, failure)
    assert server.caption(make_body(7), 1) == ["number 7"]
    assert len(stack.arrays) == 3


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("unavailable", r"503 No worker is READY. \(attempts: 3\)$"),
        ("queue-full", r"429 The queue is full. \(attempts: 3\)$"),
        ("reset", r"/caption: .*\(attempts: 3\)$"),
        ("cut", r"/caption: .*\(attempts: 3\)$"),
        ("invalid", "/caption: 422 Expected uint8, found float32.$"),
        ("too-large", "/caption: 413 Request Entity Too Large$"),
        ("few", "expected 2 captions"),
        ("not-json", "the answer is not JSON"),
        ("not-utf-8", "the answer is not JSON"),
        ("half-pair", "the answer is not JSON"),
    ],
)
def test_only_what_may_pass_is_asked_three_times(stack, server, failure, reason):
    stack.will(*[failure] * 3)
    with pytest.raises(ServerError, match=reason):
        server.caption(make_body(7, 8), 2)
    assert len(stack.arrays) == (3 if "attempts" in reason else 1)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URL of a TLS server, and its certificate."""
    pair = make_certificate(tmp_path / "pair")
    with WebhookReceiver(pair=pair) as server:
        yield server.url, pair.split(",")[0]


def test_only_a_trusted_certificate_is_taken(secure, monkeypatch):
    url, certificate = secure
    with ApiClient(url, cacert=certificate) as client:
        assert client.ask(ApiRequest("POST", "/")) is None
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    with ApiClient(url) as client:
        assert client.ask(ApiRequest("POST", "/")) is None


def test_a_fault_of_tls_ends_the_first_attempt(secure, stack, tmp_path):
    def wait(seconds: float) -> None:
        assert not seconds, "another attempt is made"

    plain = stack.url.replace("http:", "https:")
    for url, said in {secure[0]: "not trusted: .*--cacert", plain: "no.* TLS"}.items():
        hasty = ApiClient(url, wait=wait)
        with hasty as client, pytest.raises(ServerError, match=said):
            client.ask(ApiRequest("GET", "/none"))
    for url, file in ((secure[0], tmp_path / "none"), (stack.url, secure[1])):
        with pytest.raises(ServerError, match="--cacert"):
            ApiClient(url, cacert=str(file))


@pytest.fixture
def waits(server, monkeypatch) -> list[float]:
    """The durations of the client's waits, which are skipped."""
    found: list[float] = []
    monkeypatch.setattr(server._stopping, "wait", found.append)
    return found


def test_the_server_says_when_to_come_back(stack, server, waits):
    stack.will("unavailable-60s")
    server.caption(make_body(7), 1)
    assert max(waits) == 60


def test_a_large_frame_may_take_longer_than_a_connection():
    size, line = 8 << 20, socket.create_server(("127.0.0.1", 0))

    def read_slowly() -> None:
        client, _ = line.accept()
        with client, client.makefile("rb") as file:
            assert b"\r\n" in iter(file.readline, b"")
            for _ in range(0, size, 1 << 16):
                assert file.read(1 << 16)
                time.sleep(0.01)
            client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    patience = RetryPolicy(attempts=1, connect_timeout_s=0.4)
    url = f"http://127.0.0.1:{line.getsockname()[1]}"
    with line, ThreadPoolExecutor() as pool, ApiClient(url, patience) as server:
        reading = pool.submit(read_slowly)
        assert server.ask(ApiRequest("POST", "/", (bytes(size),))) is None
        reading.result()


@pytest.mark.parametrize("failure", ["hang", "drip"])
def test_an_answer_has_limited_time(stack, failure):
    stack.will(failure)
    with (
        ApiClient(stack.url, RetryPolicy(attempts=1, timeout_s=0.2)) as server,
        pytest.raises(ServerError, match="no answer in time"),
    ):
        server.caption(make_body(7), 1)


def test_a_place_without_the_api_is_named(stack):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    for url, said in {
        nobody: "connection refused",
        f"{stack.url}/below/": "404",
    }.items():
        hasty = ApiClient(url, RetryPolicy(attempts=1))
        with (
            hasty,
            pytest.raises(ServerError, match=f"{url.rstrip('/')}/tasks: {said}"),
        ):
            hasty.find_input()


def test_who_waits_for_another_attempt_can_be_stopped(stack, server):
    stack.will("unavailable-60s")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(server.caption, make_body(7), 1)
        stack.wait_until(lambda: stack.arrays != [])
        server.stop()
        with pytest.raises(RunStopped):
            asked.result(timeout=30)
    assert len(stack.arrays) == 1


def test_while_the_server_is_full_nobody_else_takes_the_place(stack, server, waits):
    stack.will(*["queue-full-60s"] * 3)
    with pytest.raises(ServerError, match="429"):
        server.caption(make_body(7), 1)
    del waits[:]
    server.caption(make_body(7), 1)
    assert 50 < waits[0] <= 60


def test_delays_double_up_to_a_limit_and_differ():
    for attempt, longest_s in [(1, 0.5), (3, 2), (50, 30), (5000, 30)]:
        delays = [choose_delay(RetryPolicy(), attempt) for _ in range(200)]
        assert longest_s / 2 <= min(delays) < max(delays) <= longest_s


def test_the_model_says_what_size_it_takes(server):
    assert server.find_input() == FrameSize(height=32, width=64)


@pytest.mark.parametrize(
    ("status", "tasks", "reason"),
    [
        (200, TASKS[:1], "does not serve captioning"),
        (200, [{"task": "captioning"}], "--full-size"),
        (200, [{"task": "captioning", "input": {"height": None}}], "--full-size"),
        (200, {"error": "x"}, "expected a list of tasks"),
        (200, [1], "expected a list of tasks"),
        (404, {"detail": "No such route."}, "/tasks: 404 No such route"),
    ],
)
def test_a_server_without_captioning_is_told(stack, server, status, tasks, reason):
    stack.tasks_status, stack.tasks = status, tasks
    with pytest.raises(ServerError, match=reason):
        server.find_input()


@pytest.mark.parametrize(
    "url", "localhost:7777 ftp://localhost http:// http://a:77777 http://[::1".split()
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ServerError, match="expected a URL such as"):
        ApiClient(url)


def test_some_faults_are_not_repeated_and_others_less_often(stack, server):
    body = make_body(7)
    stack.will("unavailable")
    request = ApiRequest("POST", "/caption", body, final=frozenset({503}))
    with pytest.raises(ServerError, match="503 No worker is READY.$") as raised:
        server.ask(request)
    assert raised.value.status == 503
    stack.will("queue-full", "unavailable", "unavailable")
    with pytest.raises(ServerError, match="attempts: 2"):
        server.ask(ApiRequest("POST", "/caption", body, most_faults=1))
    assert len(stack.arrays) == 3


def test_a_download_that_breaks_off_begins_again(stack, server, tmp_path):
    stack.will("cut")
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"kept, ")
        server.download(ApiRequest("POST", "/caption", make_body(7)), file)
    assert (tmp_path / "file").read_bytes() == b'kept, {"captions": ["number 7"]}'
