"""A real nginx and Gunicorn before a scripted TorchServe."""

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

from deploy import programs, rendering
from deploy.stack import GATEWAY, ROOT, is_taken
from tests.e2e.real_stack import wait_until
from tests.gateway.fake_torchserve import FakeTorchServe
from tests.gateway.test_gunicorn import Running, is_alive, serve_before_fake
from tests.scripted_server import LIMIT_S


@dataclass(frozen=True)
class ReverseProxy:
    """nginx's address, and the processes and the fake TorchServe behind it."""

    url: str
    nginx: psutil.Process
    gateway: psutil.Process
    #: nginx's run directory.
    run: Path
    torchserve: FakeTorchServe
    #: Gunicorn's address, without nginx.
    gateway_url: str

    def read_log(self, name: str) -> str:
        return (self.run / f"logs/{name}.log").read_text("utf-8")


def find_port() -> int:
    """Return a port that is free on every address and not in the range of client ports."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("", port)):
            return port
    raise AssertionError("no free port")


@contextmanager
def start_nginx(
    run: Path, gateway: str, edits: Mapping[str, str] | None = None
) -> Iterator[tuple[str, psutil.Process]]:
    """Start nginx with our configuration and edits on a free port; yield URL and process."""
    for folder in ("temp", "logs"):
        (run / folder).mkdir(parents=True)
    text, port = (ROOT / "nginx/nginx.conf").read_text("utf-8"), find_port()
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
    (run / rendering.ERRORS_FILE).write_text(rendering.render_errors())
    with run_nginx(run, port) as nginx:
        yield f"http://127.0.0.1:{port}", nginx


@contextmanager
def run_nginx(folder: Path, port: int) -> Iterator[psutil.Process]:
    """Run nginx with the configuration in a folder; yield it once it listens on a port."""
    program = programs.find(programs.NGINX)
    assert program
    nginx = psutil.Popen(
        [program, "-p", f"{folder}/", "-c", "nginx.conf", "-g", "daemon off;"],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: is_taken(port))
        yield nginx
    finally:
        nginx.terminate()
        nginx.wait(LIMIT_S)


@contextmanager
def start_proxy_before(
    running: Running, folder: Path, edits: Mapping[str, str] | None = None
) -> Iterator[ReverseProxy]:
    """Start nginx, with edits to its configuration, before a running Gunicorn."""
    gateway, master, fake = running
    run = folder / "nginx"
    with start_nginx(run, urlsplit(gateway).netloc, edits) as (url, nginx):
        wait_until(lambda: is_alive(url))
        (proxy, *_), (worker, *_) = nginx.children(), master.children()
        yield ReverseProxy(url, proxy, worker, run, fake, gateway)


@contextmanager
def start_proxy(
    folder: Path, edits: Mapping[str, str] | None = None, **variables: str
) -> Iterator[ReverseProxy]:
    """Start nginx before a new Gunicorn, which gets the `variables`."""
    with (
        serve_before_fake(folder, **variables) as running,
        start_proxy_before(running, folder, edits) as proxy,
    ):
        yield proxy


def reset(torchserve: FakeTorchServe) -> None:
    torchserve.will()
    torchserve.keeps_bodies = True
    torchserve.calls.clear()
    torchserve.ending.clear()
