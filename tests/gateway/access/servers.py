"""Real servers on free ports, in folders that end with them: PostgreSQL and Redis."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from deploy.programs import POSTGRESQL, REDIS, Program, find
from tests.e2e.door import find_port
from tests.e2e.real_stack import wait_until

#: PostgreSQL does not run as root.
_NOBODY = 65534
_LIMIT_S = 60


def find_or_skip(program: Program) -> Path:
    """The program's file. Where it is missing, the test is skipped by name."""
    found = find(program)
    if found is None:
        pytest.skip(f"{program.name} is missing: apt-get install {program.package}")
    return found


@contextmanager
def run_postgresql() -> Iterator[str]:
    """A URL without the database's name."""
    bin = find_or_skip(POSTGRESQL).parent
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    # Nobody can go through pytest's own folder.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        if user:
            os.chown(folder, _NOBODY, _NOBODY)
        make = ["initdb", "--no-sync", "--auth=trust", "--username=test", "-E", "UTF8"]
        subprocess.run(
            [bin / make[0], *make[1:], "-D", folder / "data"],
            **user,
            check=True,
            capture_output=True,
            timeout=_LIMIT_S,
            cwd="/",
        )
        port = find_port()
        options = {"listen_addresses": "127.0.0.1", "fsync": "off", "port": port}
        options["unix_socket_directories"] = ""
        command = [bin / "postgres", "-D", folder / "data"]
        url = f"postgresql://test@127.0.0.1:{port}"
        with run_server(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            lambda: psycopg.connect(f"{url}/postgres").close(),
            **user,
        ):
            yield url
    finally:
        shutil.rmtree(folder)


@contextmanager
def run_redis(folder: Path, port: int | None = None) -> Iterator[str]:
    """A URL."""
    program = find_or_skip(REDIS)
    port = port or find_port()
    options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    with (
        redis.Redis(port=port) as client,
        run_server([program, *options], client.ping),
    ):
        yield f"redis://127.0.0.1:{port}"


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
