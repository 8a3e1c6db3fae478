"""Clients that are too many, too slow, elsewhere or odd get an answer or a problem document."""

from __future__ import annotations

import gzip
import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.closing_server import ClosingServer, QuietHandler
from tests.e2e.door import Door, door, find_port, open_door, start_nginx
from tests.e2e.real_stack import wait_until
from tests.gateway.fake_torchserve import LIMIT_S
from tests.gateway.test_gunicorn import begin

__all__ = ["door"]

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
PNG = b"\x89PNG\r\n\x1a\n"
#: To nginx this is another machine's address: it is neither 127.0.0.1 nor ::1.
STRANGER = ("127.0.0.2", 0)
GRACE_S = 1
#: nginx's warnings also where they would quote a query.
LOUD = {"error.log crit": "error.log warn"}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    with open_door(folder, LOUD, BABELGATE_BODY_GRACE_S=str(GRACE_S)) as opened:
        yield opened


def read_problem(client: socket.socket) -> tuple[int, str]:
    """Status and slug of the answer, which is a problem document."""
    with client.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers = dict(iter(lambda: file.readline().rstrip().split(b": ", 1), [b""]))
        assert headers[b"Content-Type"] == b"application/problem+json"
        document = json.loads(file.read(int(headers[b"Content-Length"])))
    assert document["status"] == status
    return status, document["type"].rpartition(":")[2]


def knock(
    url: str, count: int, release: threading.Event, door: Door, **headers: str
) -> Counter[str]:
    """How requests end that are all made before the first is answered."""

    def ask(_: int) -> str:
        answer = requests.post(url, json=WANTED, headers=headers, timeout=LIMIT_S)
        if answer.status_code == 200:
            return "200"
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["Content-Type"] == "application/problem+json"
        return f"{answer.status_code} {answer.json()['type'].rpartition(':')[2]}"

    with ThreadPoolExecutor(count) as clients:
        asking = [clients.submit(ask, number) for number in range(count)]
        wait_until(
            lambda: (
                sum(one.done() for one in asking) + len(door.torchserve.calls) == count
            )
        )
        release.set()
        return Counter(one.result() for one in asking)


MOST = 8
#: The program that refuses, and what is edited for it.
CROWDS = {
    "of one address": ({"conn address 1024": f"conn address {MOST}"}, ""),
    "of all": ({"conn all 4096": f"conn all {MOST}"}, ""),
    "without a key": ({"conn keyless 3072": f"conn keyless {MOST}"}, ""),
    "with a key": ({"conn keyed 768": f"conn keyed {MOST}"}, ""),
    "Gunicorn's": ({}, f"--worker-connections={MOST}"),
}


@pytest.mark.parametrize("limit", CROWDS)
def test_three_times_as_many_as_allowed_are_answered_or_told_so(limit, tmp_path):
    edits, arguments = CROWDS[limit]
    with open_door(tmp_path, edits, GUNICORN_CMD_ARGS=arguments) as door:
        requests.post(door.url, json=WANTED, timeout=LIMIT_S)  # the models are known
        door.torchserve.calls.clear()
        release = door.torchserve.ending
        door.torchserve.will(*["wait"] * MOST)
        key = {"Authorization": "any"} if limit == "with a key" else {}
        ends = knock(door.url, 3 * MOST, release, door, **key)
        refused = ends.pop("429 too-many-connections")
        assert (ends, refused) == ({"200": MOST}, 2 * MOST)
        again = requests.post(door.url, json=WANTED, timeout=LIMIT_S)
        assert again.status_code == 200
        assert "worker_connections are not enough" not in door.read_log("error")


def test_who_asks_gunicorn_itself_is_told_so_too(tmp_path):
    with open_door(tmp_path, GUNICORN_CMD_ARGS=f"--worker-connections={MOST}") as door:
        door.torchserve.will(*["wait"] * MOST)
        ends = knock(door.gateway_url, 3 * MOST, door.torchserve.ending, door)
        assert set(ends) == {"200", "429 too-many-connections"}
        assert sum(ends.values()) == 3 * MOST


def test_idle_uploads_are_in_no_images_way(tmp_path):
    with open_door(tmp_path, BABELGATE_BODY_GRACE_S="14") as door, ExitStack() as idle:
        for number in range(64):
            client = begin(door.url, "/caption", "Content-Length: 30000000")
            client.sendall(b"\x93NUMPY"[: number % 7])
            idle.enter_context(client)
        image = PNG.ljust(30 << 20)
        for body in (PNG, image):
            answer = requests.post(f"{door.url}/caption", data=body, timeout=LIMIT_S)
            said = [f"image/png of {len(body)} bytes"]
            assert answer.json() == {"captions": said}


def test_nginx_answers_in_time_for_a_gateway_that_stands_still(door):
    door.gateway.suspend()
    try:
        hurried = requests.post(
            f"{door.url}/translate",
            json=WANTED,
            headers={"X-Timeout-Ms": "300"},
            timeout=LIMIT_S,
        )
    finally:
        door.gateway.resume()
    assert (hurried.status_code, hurried.json()["type"]) == (
        504,
        "urn:babelgate:deadline",
    )
    again = requests.post(f"{door.url}/translate", json=WANTED, timeout=LIMIT_S)
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
def test_a_body_that_comes_too_slowly_is_refused(door, path, framing, is_trickle):
    piece = b"1\r\na\r\n" if framing == CHUNKED else b"a"
    with begin(door.url, path, framing) as client:
        give_up_at = time.monotonic() + LIMIT_S
        while not select.select([client], [], [], GRACE_S / 10)[0]:
            assert time.monotonic() < give_up_at
            if is_trickle:
                client.sendall(piece)
        assert read_problem(client) == (408, "body-too-slow")
        assert client.recv(1) == b"", "it is closed, and not reset"


def test_a_body_with_pauses_is_not_too_slow(door):
    body = json.dumps(WANTED).encode()
    with begin(door.url, "/translate", f"Content-Length: {len(body)}") as client:
        for place in range(0, len(body), 10):
            client.sendall(body[place : place + 10])
            assert not select.select([client], [], [], GRACE_S / 12)[0]
            if place == 30:
                break
        client.sendall(body[place + 10 :])
        assert client.recv(15) == b"HTTP/1.1 200 OK"


def write_chunks(body: bytes, size: int) -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


#: Bodies near the limit of 1 MiB: how many bytes they have, and their chunks.
LARGE = {"one chunk": (1 << 20, 1 << 20), "small chunks": (1_040_000, 10)}


def send_large(door: Door, size: int, chunk: int) -> int:
    body = write_chunks(json.dumps(WANTED).encode().ljust(size), chunk)
    with begin(door.url, "/translate", "Transfer-Encoding: chunked") as client:
        client.sendall(body + b"0\r\n\r\n")
        return int(client.recv(1 << 16).split()[1])


@pytest.mark.parametrize("kind", LARGE)
def test_of_a_large_body_nothing_is_written_to_disk(door, kind):
    assert send_large(door, *LARGE[kind]) == 200
    assert not [path for path in (door.run / "temp").rglob("*") if path.is_file()]
    assert "temp/body" not in door.read_log("error")


def test_nginx_would_tell_of_what_it_writes_to_disk(tmp_path):
    edits = {"proxy_request_buffering off": "proxy_request_buffering on", **LOUD}
    with open_door(tmp_path, edits) as door:
        send_large(door, *LARGE["one chunk"])
        assert "temp/body" in door.read_log("error")


def test_a_packed_body_is_unpacked_behind_nginx(door):
    answer = requests.post(
        f"{door.url}/translate",
        data=iter([gzip.compress(json.dumps(WANTED).encode())]),
        headers={"Content-Encoding": "gzip"},
        timeout=LIMIT_S,
    )
    assert answer.json() == {"translated": "ko:Hello"}


def get(
    door: Door, path: str, source: tuple[str, int] | None = None, **headers: str
) -> tuple[int, bytes]:
    client = HTTPConnection(*door.address, timeout=LIMIT_S, source_address=source)
    try:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


ASKERS: dict[str, tuple[tuple[str, int] | None, dict[str, str], int]] = {
    "this machine": (None, {}, 200),
    "another machine": (STRANGER, {}, 403),
    "another that lies": (STRANGER, {"X-Forwarded-For": "127.0.0.1"}, 403),
    "X-Real-IP": (STRANGER, {"X-Real-IP": "127.0.0.1"}, 403),
    "a proxy": (None, {"X-Forwarded-For": "203.0.113.7"}, 403),
    "a lie and a proxy": (None, {"X-Forwarded-For": "127.0.0.1, 203.0.113.7"}, 403),
    "a proxy passes a lie on": (None, {"X-Forwarded-For": "127.0.0.1"}, 403),
    "RFC 7239": (None, {"Forwarded": "for=127.0.0.1"}, 403),
}


@pytest.mark.parametrize(
    ("source", "headers", "status"), ASKERS.values(), ids=ASKERS.keys()
)
def test_metrics_are_for_this_machine_only(door, source, headers, status):
    assert get(door, "/metrics", source, **headers)[0] == status


class Echo(QuietHandler):
    """A gateway that answers with the headers it gets."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.reply(200, json.dumps(dict(self.headers.items())).encode())

    do_POST = do_GET


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    """nginx before such a gateway: its URL."""
    gateway, port = ClosingServer(("127.0.0.1", 0), Echo), find_port()
    gateway.start()
    nginx = start_nginx(tmp_path / "nginx", port, f"127.0.0.1:{gateway.server_port}")
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_open(port))
        yield url
    finally:
        nginx.terminate()
        nginx.wait(LIMIT_S)
        gateway.stop()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("source", "forwarded", "address"),
    [
        (None, "203.0.113.7", "203.0.113.7"),
        (None, "192.0.2.1, 203.0.113.7", "203.0.113.7"),
        (None, "203.0.113.7, 127.0.0.1", "203.0.113.7"),
        (None, None, "127.0.0.1"),
        (STRANGER, "203.0.113.7", "127.0.0.2"),
    ],
)
def test_the_gateway_learns_who_asks(echo, source, forwarded, address):
    parts = urlsplit(echo)
    client = HTTPConnection(parts.hostname or "", parts.port, source_address=source)
    headers = {"X-Real-IP": "198.51.100.1"}
    if forwarded:
        headers["X-Forwarded-For"] = forwarded
    client.request("GET", "/", headers=headers)
    with client.getresponse() as answer:
        assert json.load(answer)["X-Real-IP"] == address
    client.close()


def test_the_gateway_learns_where_it_was_asked_for(echo):
    answer = requests.get(echo, timeout=LIMIT_S)
    assert answer.json()["Host"] == urlsplit(echo).netloc


def test_the_log_has_the_path_that_was_asked_for_and_no_query(door):
    get(door, "/metrics?secret=xylophone", STRANGER)
    wait_until(lambda: "/metrics" in door.read_log("access"))
    (line,) = [
        json.loads(line)
        for line in door.read_log("access").splitlines()
        if json.loads(line)["client"] == STRANGER[0]
    ][-1:]
    assert (line["path"], line["status"]) == ("/metrics", 403)
    assert "xylophone" not in door.read_log("access")


@pytest.mark.parametrize(
    ("more", "is_quoted"),
    [({}, False), (LOUD, True)],
    ids=["as it ships", "verbose"],
)
def test_a_query_is_not_in_the_error_log_either(tmp_path, more, is_quoted):
    nobody = "location /nobody { proxy_pass http://127.0.0.1:1; }\n        location / {"
    with open_door(tmp_path, {r"location / \{": nobody, **more}) as door:
        answer = requests.get(f"{door.url}/nobody?key=xylophone", timeout=LIMIT_S)
        assert answer.status_code == 503
        assert ("xylophone" in door.read_log("error")) is is_quoted
