"""A real nginx and Gunicorn, with a TorchServe behind that does what a test tells it."""

from __future__ import annotations

import random
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from deploy import programs
from deploy.stack import GATEWAY, ROOT
from tests.e2e.real_stack import wait_until
from tests.gateway.fake_torchserve import LIMIT_S, FakeTorchServe
from tests.gateway.test_gunicorn import is_alive, serve_before_fake


@dataclass(frozen=True)
class Door:
    """Where clients send their requests, and who takes them."""

    url: str
    nginx: psutil.Process
    gateway: psutil.Process
    #: nginx's run directory.
    run: Path
    torchserve: FakeTorchServe
    #: Gunicorn's, without nginx.
    gateway_url: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)

    def read_log(self, name: str) -> str:
        return (self.run / f"logs/{name}.log").read_text("utf-8")


def find_port() -> int:
    """A free one on every address, and none that connections get as theirs."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("", port)):
            return port
    raise AssertionError("no free port")


def start_nginx(
    run: Path, port: int, gateway: str, edits: Mapping[str, str] | None = None
) -> psutil.Popen:
    """nginx with our configuration, one worker, other ports, and edits."""
    for folder in ("temp", "logs"):
        (run / folder).mkdir(parents=True)
    text = (ROOT / "nginx/nginx.conf").read_text("utf-8")
    changes = {
        r"\b7777\b": str(port),
        rf"127\.0\.0\.1:{GATEWAY}": gateway,
        "worker_processes auto": "worker_processes 1",
        "access_log [^ ]+": "access_log logs/access.log",
        "error_log [^ ]+": "error_log logs/error.log",
    }
    for old, new in (changes | dict(edits or {})).items():
        text, count = re.subn(old, new, text)
        assert count, old
    (run / "nginx.conf").write_text(text)
    nginx = programs.find(programs.NGINX)
    assert nginx
    return psutil.Popen(
        [nginx, "-p", f"{run}/", "-c", f"{run}/nginx.conf", "-g", "daemon off;"],
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def open_door(
    folder: Path, edits: Mapping[str, str] | None = None, **variables: str
) -> Iterator[Door]:
    """One that answers; `edits` are of nginx.conf, `variables` are Gunicorn's."""
    with serve_before_fake(folder, **variables) as (gateway, master, fake):
        port, run = find_port(), folder / "nginx"
        nginx = start_nginx(run, port, urlsplit(gateway).netloc, edits)
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: is_alive(url))
            door, worker = (one.children()[0] for one in (nginx, master))
            yield Door(url, door, worker, run, fake, gateway)
        finally:
            nginx.terminate()
            nginx.wait(LIMIT_S)


@pytest.fixture
def door(started: Door) -> Door:
    """A module's own, with a TorchServe that has nothing to do yet."""
    started.torchserve.will()
    started.torchserve.keeps_bodies = True
    started.torchserve.calls.clear()
    return started
