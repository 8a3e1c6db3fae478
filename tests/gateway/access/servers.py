"""PostgreSQL and Redis servers on free ports, and a proxy that slows or cuts connections."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import psutil
import psycopg
import redis

from deploy.programs import POSTGRESQL, REDIS
from tests.e2e.real_stack import wait_until
from tests.e2e.reverse_proxy import find_port
from tests.programs import find_or_skip

_NOBODY = 65534
_LIMIT_S = 60
_CHUNK = 1 << 16


@dataclass
class PostgreSQL:
    """A server and its data folder. Root runs it as `nobody`: PostgreSQL refuses root."""

    folder: Path
    port: int = field(default_factory=find_port)

    def __post_init__(self) -> None:
        self._bin = find_or_skip(POSTGRESQL).parent
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(self.folder, _NOBODY, _NOBODY)
            self._user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}

    @property
    def url(self) -> str:
        """The URL without a database name."""
        return f"postgresql://test@127.0.0.1:{self.port}"

    def make(self) -> None:
        subprocess.run(
            [
                self._bin / "initdb", "--no-sync", "--auth=trust", "--encoding=UTF8",
                "--username=test", "-D", self.folder / "data",
            ],
            **self._user,
            check=True,
            capture_output=True,
            timeout=_LIMIT_S,
            cwd="/",
        )  # fmt: skip

    def run(self) -> AbstractContextManager[psutil.Popen]:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
        }
        command = [self._bin / "postgres", "-D", self.folder / "data"]
        command += [f"--{name}={value}" for name, value in options.items()]
        return run_server(command, lambda: self.connect().close(), **self._user)

    def connect(self, **options: Any) -> psycopg.Connection:
        return psycopg.connect(f"{self.url}/postgres", **options)


@contextmanager
def make_postgresql() -> Iterator[PostgreSQL]:
    """Create a server without starting it, in `/tmp`: `nobody` cannot enter pytest's folder."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        server = PostgreSQL(folder)
        server.make()
        yield server
    finally:
        shutil.rmtree(folder)


@contextmanager
def run_redis(
    folder: Path, port: int | None = None
) -> Iterator[tuple[str, psutil.Popen]]:
    """Start a Redis and yield its URL and process."""
    program = find_or_skip(REDIS)
    port = port or find_port()
    options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    with (
        redis.Redis(port=port) as client,
        run_server([program, *options], client.ping) as server,
    ):
        yield f"redis://127.0.0.1:{port}", server


@contextmanager
def run_server(
    command: Sequence[object], ask: Callable[[], object], **options: Any
) -> Iterator[psutil.Popen]:
    """Start a server, wait until `ask` succeeds, and finally stop it with its children."""
    server = psutil.Popen(
        [str(part) for part in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        **options,
    )
    try:
        wait_until(lambda: does_answer(ask), limit_s=_LIMIT_S)
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(_LIMIT_S)


def does_answer(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except (psycopg.OperationalError, redis.RedisError):
        return False
    return True


class Proxy(ThreadingTCPServer):
    """A TCP proxy in front of a port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = ("127.0.0.1", port)
        self.open: set[socket.socket] = set()
        #: The delay of each chunk, in either direction.
        self.delay_s = 0.0
        self.is_cut = False

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @contextmanager
    def run(self) -> Iterator[None]:
        """Serve from a thread, and finally close all connections and end the threads."""
        thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield
        finally:
            with self.cut():
                self.shutdown()
                thread.join()
                self.server_close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Close all connections, and new ones at once, until the block ends."""
        self.is_cut = True
        for each in list(self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        yield
        self.is_cut = False

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Delay requests and responses: each answer arrives late by twice this time."""
        self.delay_s = delay_s
        yield
        self.delay_s = 0.0

    def pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        """Copy bytes until either end closes."""
        with suppress(OSError):
            while not self.is_cut and (data := source.recv(_CHUNK)):
                threading.Event().wait(self.delay_s)
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Passing(BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        if self.server.is_cut:
            return
        client = self.request
        with socket.create_connection(self.server.target) as server:
            self.server.open |= {client, server}
            back = threading.Thread(target=self.server.pass_on, args=(server, client))
            back.start()
            self.server.pass_on(client, server)
            back.join()
            self.server.open -= {client, server}
