"""Clients that are too many, slow, remote or odd get an answer or a problem of their API."""

import json
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from contract.dialects import FOREIGN, find_dialect
from contract.problems import write_problem
from tests.e2e.real_stack import ask_from, wait_until
from tests.e2e.reverse_proxy import (
    ReverseProxy,
    find_port,
    reset,
    start_nginx,
    start_proxy,
    start_proxy_before,
)
from tests.gateway.test_gunicorn import Running, begin, serve_before_fake
from tests.scripted_server import LIMIT_S, ClosingServer, QuietHandler

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
PATHS = ["/", "/detect", *(path for api in FOREIGN for path in api.translating)]
SECRET = "xylophone"
PNG = b"\x89PNG\r\n\x1a\n"
#: To nginx this is another machine's address: it is neither 127.0.0.1 nor ::1.
STRANGER = "127.0.0.2"
GRACE_S = 1
MOST = 8
#: nginx logs warnings even where they would quote a query.
LOUD = {"error.log crit": "error.log warn"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A Gunicorn for all tests of this file that do not start one."""
    folder = tmp_path_factory.mktemp("gateway")
    with serve_before_fake(folder, BABELGATE_BODY_GRACE_S=str(GRACE_S)) as running:
        yield running


@pytest.fixture(scope="module")
def started(running, tmp_path_factory) -> Iterator[ReverseProxy]:
    with start_proxy_before(running, tmp_path_factory.mktemp("proxy"), LOUD) as opened:
        yield opened


def read_problem(client: socket.socket) -> tuple[int, str]:
    """Read a problem document, and return its status and slug."""
    with client.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers = dict(iter(lambda: file.readline().rstrip().split(b": ", 1), [b""]))
        assert headers[b"Content-Type"] == b"application/problem+json"
        document = json.loads(file.read(int(headers[b"Content-Length"])))
    assert document["status"] == status
    return status, document["type"].rpartition(":")[2]


#: The limits that tests lower, so that few connections exceed them.
CROWDS = {
    "of one address": "conn address 1024",
    "of all": "conn all 4096",
    "without a key": "conn keyless 3072",
    "with a key": "conn keyed 768",
}


def knock_thrice(proxy: ReverseProxy, url: str, **headers: str) -> Counter[str]:
    """Send three times as many requests as are admitted at once, and count the outcomes."""

    def ask(number: int) -> str:
        wanted = WANTED | {"src_text": f"Hello, {number}"}  # equal ones are sent once
        one = headers | {"X-Forwarded-For": f"2001:db8::{number:x}"}  # of a network
        answer = requests.post(url, json=wanted, headers=one, timeout=LIMIT_S)
        if answer.status_code == 200:
            return "200"
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["Content-Type"] == "application/problem+json"
        return f"{answer.status_code} {answer.json()['type'].rpartition(':')[2]}"

    requests.post(proxy.url, json=WANTED, timeout=LIMIT_S)  # the models are known
    reset(proxy.torchserve)
    proxy.torchserve.will(*["wait"] * MOST)
    calls = proxy.torchserve.calls
    with ThreadPoolExecutor(3 * MOST) as clients:
        asking = [clients.submit(ask, number) for number in range(3 * MOST)]
        wait_until(lambda: sum(map(Future.done, asking)) + len(calls) == 3 * MOST)
        proxy.torchserve.ending.set()
        ends = Counter(one.result() for one in asking)
    assert ends.keys() == {"200", "429 too-many-connections"}
    assert ends.total() == 3 * MOST
    return ends


@pytest.mark.parametrize("limit", CROWDS)
def test_three_times_as_many_as_allowed_are_answered_or_told_so(
    limit, running, tmp_path
):
    limited = CROWDS[limit].rpartition(" ")[0]
    few = {CROWDS[limit]: f"{limited} {MOST}"}
    with start_proxy_before(running, tmp_path, few) as proxy:
        key = {"Authorization": "any"} if limit == "with a key" else {}
        assert knock_thrice(proxy, proxy.url, **key)["200"] == MOST
        again = requests.post(proxy.url, json=WANTED, timeout=LIMIT_S)
        assert again.status_code == 200


def test_gunicorn_refuses_too_and_tells_who_asks_it_directly(tmp_path):
    few = {"GUNICORN_CMD_ARGS": f"--worker-connections={MOST}"}
    with start_proxy(tmp_path, None, **few) as crowded:
        knock_thrice(crowded, crowded.gateway_url)
        assert knock_thrice(crowded, crowded.url)["200"] == MOST
        assert "worker_connections are not enough" not in crowded.read_log("error")


def test_idle_uploads_are_in_no_images_way(tmp_path):
    with (
        start_proxy(tmp_path, BABELGATE_BODY_GRACE_S="14") as proxy,
        ExitStack() as idle,
    ):
        for number in range(64):
            client = begin(proxy.url, "/caption", "Content-Length: 30000000")
            client.sendall(b"\x93NUMPY"[: number % 7])
            idle.enter_context(client)
        for body in (PNG, PNG.ljust(30 << 20)):
            answer = requests.post(f"{proxy.url}/caption", data=body, timeout=LIMIT_S)
            said = [f"image/png of {len(body)} bytes"]
            assert answer.json() == {"captions": said}


def test_nginx_answers_in_time_for_a_gateway_that_stands_still(proxy):
    url, hurry = f"{proxy.url}/translate", {"X-Timeout-Ms": "300"}
    proxy.gateway.suspend()
    try:
        hurried = requests.post(url, json=WANTED, headers=hurry, timeout=LIMIT_S)
    finally:
        proxy.gateway.resume()
    assert hurried.status_code == 504
    assert hurried.json()["type"] == "urn:babelgate:deadline"
    again = requests.post(url, json=WANTED, timeout=LIMIT_S)
    assert again.json() == {"translated": "ko:Hello"}


SIZED, CHUNKED = "Content-Length: 100000", "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("path", "framing", "is_trickle"),
    [
        ("/translate", SIZED, True),
        ("/translate", CHUNKED, False),
        ("/caption", SIZED, False),
        ("/caption", CHUNKED, True),
    ],
)
def test_a_body_that_comes_too_slowly_is_refused(proxy, path, framing, is_trickle):
    piece = b"1\r\na\r\n" if framing == CHUNKED else b"a"
    with begin(proxy.url, path, framing) as client:
        give_up_at = time.monotonic() + LIMIT_S
        while not select.select([client], [], [], GRACE_S / 10)[0]:
            assert time.monotonic() < give_up_at
            if is_trickle:
                client.sendall(piece)
        assert read_problem(client) == (408, "body-too-slow")
        assert client.recv(1) == b"", "it is closed, and not reset"


def test_a_body_with_pauses_is_not_too_slow(proxy):
    body = json.dumps(WANTED).encode()
    with begin(proxy.url, "/translate", f"Content-Length: {len(body)}") as client:
        for place in range(0, len(body), 10):
            client.sendall(body[place : place + 10])
            assert not select.select([client], [], [], GRACE_S / 12)[0]
            if place == 30:
                break
        client.sendall(body[place + 10 :])
        assert client.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("size", "chunk"),
    [(1 << 20, 1 << 20), (1_040_000, 10)],
    ids=["one chunk", "small chunks"],
)
def test_of_a_large_body_nothing_is_written_to_disk(proxy, size, chunk):
    """These bodies are near the limit of 1 MiB."""
    body = json.dumps(WANTED).encode().ljust(size)
    pieces = (body[at : at + chunk] for at in range(0, size, chunk))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    with begin(proxy.url, "/translate", "Transfer-Encoding: chunked") as client:
        client.sendall(chunks + b"0\r\n\r\n")
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    assert not [path for path in (proxy.run / "temp").rglob("*") if path.is_file()]
    assert "temp/body" not in proxy.read_log("error")


ASKERS: dict[str, tuple[str, dict[str, str], int]] = {
    "this machine": ("127.0.0.1", {}, 200),
    "another machine": (STRANGER, {}, 403),
    "another that lies": (STRANGER, {"X-Forwarded-For": "127.0.0.1"}, 403),
    "X-Real-IP": (STRANGER, {"X-Real-IP": "127.0.0.1"}, 403),
    "a proxy": ("127.0.0.1", {"X-Forwarded-For": "203.0.113.7"}, 403),
    "a lie and a proxy": (
        "127.0.0.1",
        {"X-Forwarded-For": "127.0.0.1, 203.0.113.7"},
        403,
    ),
    "a proxy passes a lie on": ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 403),
    "RFC 7239": ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}, 403),
}


@pytest.mark.parametrize(("source", "headers", "status"), ASKERS.values(), ids=ASKERS)
def test_metrics_are_for_this_machine_only(proxy, source, headers, status):
    answer = ask_from(source, "GET", f"{proxy.url}/metrics", headers=headers)
    assert answer.status == status


class _Echo(QuietHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.reply(200, json.dumps(dict(self.headers.items())).encode())

    do_POST = do_GET


@contextmanager
def serve_echo(port: int = 0) -> Iterator[str]:
    """Serve a gateway that answers with a request's headers, and yield its address."""
    gateway = ClosingServer(("127.0.0.1", port), _Echo)
    gateway.start()
    try:
        yield f"127.0.0.1:{gateway.server_port}"
    finally:
        gateway.stop()


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    """The URL of nginx before a gateway that returns a request's headers."""
    with serve_echo() as gateway, start_nginx(tmp_path / "nginx", gateway) as (url, _):
        yield url


@pytest.mark.parametrize(
    ("source", "forwarded", "address"),
    [
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "192.0.2.1, 203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "203.0.113.7, 127.0.0.1", "203.0.113.7"),
        ("127.0.0.1", None, "127.0.0.1"),
        (STRANGER, "203.0.113.7", STRANGER),
    ],
)
def test_the_gateway_learns_who_asks_and_where(echo, source, forwarded, address):
    headers = {"X-Real-IP": "198.51.100.1"}
    if forwarded:
        headers["X-Forwarded-For"] = forwarded
    found = ask_from(source, "GET", echo, headers=headers).json()
    assert (found["X-Real-IP"], found["Host"]) == (address, urlsplit(echo).netloc)


@pytest.mark.parametrize("api", FOREIGN, ids=lambda api: api.name)
def test_five_thousand_characters_of_any_script_fit_into_a_url(proxy, api):
    (path,) = api.translating
    given = dict(zip(api.fields, ("好" * 5000, "zh", "ko"), strict=True))
    answer = requests.post(proxy.url + path, params=given, timeout=LIMIT_S)
    assert answer.status_code == 200
    assert "好" * 100 in answer.json().__str__()


def test_a_gateway_that_is_down_is_told_in_each_api_and_logged_without_texts(tmp_path):
    run = tmp_path / "nginx"
    with start_nginx(run, f"127.0.0.1:{find_port()}") as (url, _):
        for path in PATHS:
            answer = requests.get(f"{url}{path}?q={SECRET}", timeout=LIMIT_S)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            problem = write_problem("not-ready", 503, "Any.")
            expected = find_dialect(path).answer(problem)
            assert answer.headers["Content-Type"] == expected.content_type
            assert answer.json().keys() >= expected.content.keys()
        page = requests.get(url, headers={"Accept": "text/html"}, timeout=LIMIT_S)
    assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "The gateway is being restarted." in page.text
    assert '<meta http-equiv="refresh" content="5">' in page.text
    logs = [path.read_text("utf-8") for path in (run / "logs").iterdir()]
    assert any('"/v2/translate"' in log for log in logs)
    assert not any(SECRET in log for log in logs)
