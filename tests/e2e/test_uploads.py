"""Large uploads through a real nginx and Gunicorn, with a TorchServe behind that does what a
test tells it: nobody keeps a whole one, and who is refused in the middle is told so.
"""

from __future__ import annotations

import io
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil
import pytest
import requests

from deploy import programs
from deploy.stack import GATEWAY, ROOT
from gateway.settings import Settings
from tests.e2e.real_stack import wait_until
from tests.gateway.fake_torchserve import LIMIT_S, FakeTorchServe
from tests.gateway.test_gunicorn import find_url, is_alive, start

SHAPE = (480, 640, 3)
FRAME = bytes(480 * 640 * 3)
PNG = b"\x89PNG\r\n\x1a\n"
#: 415 MB.
FRAMES = 450
#: What the process may take beyond what it says that it holds: a few rows are copied.
SLACK_BYTES = 32 << 20


@dataclass(frozen=True)
class Door:
    """Where clients send their requests, and who takes them."""

    url: str
    nginx: psutil.Process
    gateway: psutil.Process
    temp: Path
    torchserve: FakeTorchServe


def find_port() -> int:
    """A free one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start_nginx(run: Path, port: int, gateway: str) -> subprocess.Popen[bytes]:
    """nginx with the configuration of the house, one worker and other ports."""
    for folder in ("temp", "logs"):
        (run / folder).mkdir(parents=True)
    text = (ROOT / "nginx/nginx.conf").read_text("utf-8")
    for old, new in (
        (r"\b7777\b", str(port)),
        (rf"127\.0\.0\.1:{GATEWAY}", gateway),
        ("worker_processes auto", "worker_processes 1"),
        (r"\.\./logs/", "logs/"),
    ):
        text, count = re.subn(old, new, text)
        assert count
    (run / "nginx.conf").write_text(text)
    nginx = programs.find(programs.NGINX)
    assert nginx
    return subprocess.Popen(
        [nginx, "-p", f"{run}/", "-c", f"{run}/nginx.conf", "-g", "daemon off;"],
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One for all tests here."""
    folder = tmp_path_factory.mktemp("door")
    with FakeTorchServe(folder / "keys.json") as fake:
        master = start(
            folder,
            BABELGATE_INFERENCE_URL=fake.url,
            BABELGATE_MANAGEMENT_URL=fake.url,
            BABELGATE_KEY_FILE=str(fake.key_file),
        )
        port = find_port()
        nginx = start_nginx(folder / "nginx", port, urlsplit(find_url(folder)).netloc)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: is_alive(url))
            door, gateway = (
                psutil.Process(process.pid).children()[0] for process in (nginx, master)
            )
            yield Door(url, door, gateway, folder / "nginx/temp", fake)
        finally:
            for process in (nginx, master):
                process.terminate()
                process.wait(LIMIT_S)


@pytest.fixture
def door(started: Door) -> Door:
    """With a TorchServe that has nothing to do yet."""
    started.torchserve.will()
    started.torchserve.keeps_bodies = True
    started.torchserve.calls.clear()
    return started


def make_array(frames: int, descr: str = "|u1") -> Iterator[bytes]:
    """A `.npy` file in pieces."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": (frames, *SHAPE)}
    )
    yield file.getvalue()
    yield from (FRAME for _ in range(frames))


class Sized:
    """A body whose length is known before it is sent."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self._length = sum(map(len, pieces()))
        self._pieces = pieces()

    def __len__(self) -> int:
        return self._length

    def read(self, size: int = 0, /) -> bytes:
        """The next piece, whatever size was asked for."""
        return next(self._pieces, b"")


def upload(
    client: requests.Session,
    url: str,
    pieces: Callable[[], Iterator[bytes]],
    *,
    is_chunked: bool,
    timeout_ms: int = 120_000,
) -> requests.Response:
    """The answer to frames or what else there is."""
    return client.post(
        f"{url}/caption",
        data=pieces() if is_chunked else Sized(pieces),
        headers={"X-Timeout-Ms": str(timeout_ms)},
        timeout=LIMIT_S,
    )


def measure_peak(process: psutil.Process) -> int:
    """The most memory that it has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(kilobytes) << 10


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_of_a_large_upload_nobody_keeps_more_than_a_few_rows(door, is_chunked):
    before = {p: p.memory_info().rss for p in (door.nginx, door.gateway)}
    door.torchserve.keeps_bodies = False
    with requests.Session() as client:
        answer = upload(
            client, door.url, lambda: make_array(FRAMES), is_chunked=is_chunked
        )
    assert answer.json() == {"captions": ["pixel 0 0 0"] * FRAMES}
    held = Settings().upload_buffer_bytes + SLACK_BYTES
    assert measure_peak(door.gateway) - before[door.gateway] < held
    assert measure_peak(door.nginx) - before[door.nginx] < 4 << 20
    assert not [path for path in door.temp.rglob("*") if path.is_file()]


BAD = {
    "dtype": (422, lambda: make_array(FRAMES // 3, "<f4")),
    "format": (415, lambda: iter([b"GIF89a", *[FRAME] * 150])),
    "image size": (413, lambda: iter([PNG, *[FRAME] * 150])),
    "upload size": (413, lambda: make_array(600)),
    "row": (422, lambda: make_array(FRAMES // 3)),
}


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("kind", BAD)
def test_who_is_refused_in_the_middle_is_told_so_and_goes_on(door, kind, is_chunked):
    status, make = BAD[kind]
    door.torchserve.will(*["echo"] * 3, "row-no-image")
    with requests.Session() as client:
        answer = upload(client, door.url, make, is_chunked=is_chunked)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        door.torchserve.will()
        answer = client.post(f"{door.url}/caption", data=PNG, timeout=LIMIT_S)
        assert answer.json() == {"captions": ["image/png of 8 bytes"]}


def test_a_deadline_in_the_middle_of_an_upload_is_a_document_too(door):
    door.torchserve.will("hang")
    with requests.Session() as client:
        frames = partial(make_array, FRAMES // 3)
        answer = upload(client, door.url, frames, is_chunked=True, timeout_ms=300)
    assert (answer.status_code, answer.json()["status"]) == (504, 504)


def test_a_request_that_nginx_cannot_read_is_a_document_however_long_it_is(door):
    both = {"Content-Length": str(1 << 30), "Transfer-Encoding": "chunked"}
    answer = requests.post(
        f"{door.url}/caption", data=b"x", headers=both, timeout=LIMIT_S
    )
    assert (answer.status_code, answer.json()["status"]) == (400, 400)


def test_a_body_that_is_too_large_for_another_path_is_refused_by_nginx(door):
    answer = requests.post(f"{door.url}/translate", data=FRAME * 2, timeout=LIMIT_S)
    assert answer.status_code == 413
    assert "1 MiB of anything else" in answer.json()["detail"]
