"""Real servers on free ports, in folders that end with them: PostgreSQL and Redis."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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
def run_redis(folder: Path, port: int | None = None) -> Iterator[str]:
    """A URL."""
    with run_redis_server(folder, port) as (url, _):
        yield url


@contextmanager
def run_redis_server(
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
