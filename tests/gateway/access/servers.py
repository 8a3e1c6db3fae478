"""Real servers on free ports, in folders that end with them: PostgreSQL and Redis. A test makes
the way to them slow, or cuts it.
"""

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
    """A server with its data in a folder. As root it is nobody's: it does not run as root."""

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
        """Without the database's name."""
        return f"postgresql://test@127.0.0.1:{self.port}"

    def make(self) -> None:
        subprocess.run(
            [
                *(self._bin / "initdb", "--no-sync", "--auth=trust", "--encoding=UTF8"),
                *("--username=test", "-D", self.folder / "data"),
            ],
            **self._user,
            check=True,
            capture_output=True,
            timeout=_LIMIT_S,
            cwd="/",
        )

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
    """One that does not run yet. Nobody can go through pytest's own folder."""
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
    """A URL, and the process behind it."""
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
    """A server that answers `ask`; it ends with its children."""
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
    """Passes bytes on between clients and a port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = ("127.0.0.1", port)
        self.open: set[socket.socket] = set()
        #: Before each piece is passed on, in either direction.
        self.delay_s = 0.0
        self.is_cut = False

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @contextmanager
    def run(self) -> Iterator[None]:
        """Ends with all that it has started."""
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
        """Ends all connections, and takes no others."""
        self.is_cut = True
        for each in list(self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        yield
        self.is_cut = False

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Answers come twice this late."""
        self.delay_s = delay_s
        yield
        self.delay_s = 0.0

    def pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        """Until one of them ends."""
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
