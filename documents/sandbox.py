"""Runs steps in separate processes with limits: code that reads an untrusted file may exhaust
its memory or never end, and then only its process is killed.

The program sends requests to a server, `python -m documents.sandbox MODULE`, which has imported
the module. For each request it forks a keeper, and the keeper a worker, within milliseconds. A
keeper kills its worker when the program closes the connection.
"""

import ctypes
import errno
import gc
import importlib
import json
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from contract import variables

_BYTES = 64 << 10
_LOOK_S = 0.2
#: Seconds for the server to accept a request.
_ACCEPT_S = 60.0
_PR_SET_PDEATHSIG = 1
#: The environment variables that a server needs; no passwords.
_ENVIRONMENT = {
    "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR",
    variables.RUN_DIR.name, variables.PROGRAM.name,
}  # fmt: skip

Resource: TypeAlias = Literal["memory", "cpu", "bytes", "time"]
Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class LimitExceeded(Exception):
    """A worker exceeded its limit of a `resource`."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource)
        self.resource = resource


class WorkerEnded(Exception):
    """A worker ended without an answer: it was killed, or it failed."""


@dataclass(frozen=True)
class Allowance:
    """The limits of a worker: its CPU time, its total time, its memory in addition to the
    imported module's, and the bytes of each file that it writes."""

    cpu_s: int
    time_s: float
    memory_bytes: int
    written_bytes: int


#: The type of `Sandbox.run`.
TakeStep = Callable[
    [Mapping[str, Any], Allowance, Callable[[], None]], Mapping[str, Any]
]


class Sandbox:
    """A server for the function `run` of a module, and its workers. Threads may share it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def close(self) -> None:
        """Kill the server. A worker ends when its request is answered or abandoned."""
        if self._server and self._control:
            self._control.close()
            self._server.kill()
            self._server.wait()

    def run(
        self,
        request: Mapping[str, Any],
        allowance: Allowance,
        check: Callable[[], None],
    ) -> Mapping[str, Any]:
        """Return the answer to a request. Calls `check` periodically, whose errors end the
        worker. Raises LimitExceeded and WorkerEnded."""
        give_up_at = time.monotonic() + allowance.time_s
        received = b""
        with self._send_request(
            json.dumps([request, asdict(allowance)]).encode()
        ) as connection:
            connection.settimeout(_LOOK_S)
            while time.monotonic() < give_up_at:
                try:
                    chunk = connection.recv(_BYTES)
                except TimeoutError:
                    check()
                    continue
                except OSError as error:
                    raise WorkerEnded from error
                if not chunk:
                    return _read_answer(received)
                received += chunk
        with self._lock:
            self.close()  # it may be stuck; the next request starts another
        raise LimitExceeded("time")

    def _send_request(self, data: bytes) -> socket.socket:
        mine, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                control = self._control
                if not (control and self._server and self._server.poll() is None):
                    control = self._start()
                socket.send_fds(control, [data], [theirs.fileno()])
            except OSError as error:
                mine.close()
                self.close()
                raise WorkerEnded from error
        return mine

    def _start(self) -> socket.socket:
        self.close()
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._control.settimeout(_ACCEPT_S)
        known = _ENVIRONMENT & os.environ.keys()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "documents.sandbox", self._module],
                cwd=Path(__file__).parents[1],
                env={name: os.environ[name] for name in known},
                stdin=theirs.fileno(),
            )
        return self._control


def _read_answer(received: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(received)
    except ValueError as error:  # the keeper was killed, or the worker while answering
        raise WorkerEnded from error
    match told:
        case {"answer": dict(found)}:
            return found
        case {"limit": ("memory" | "cpu" | "bytes") as limit}:
            raise LimitExceeded(limit)
    raise WorkerEnded


def serve(control: socket.socket, run: Run) -> None:
    """Fork a keeper for each request, until the other end of `control` is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the client program
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reaps keepers automatically
    gc.freeze()  # saves workers from copying these pages
    while True:
        data, descriptors, *_ = socket.recv_fds(control, _BYTES, 1)
        if not data:
            return
        # If no process can be forked, the client receives an empty answer.
        with socket.socket(fileno=descriptors[0]) as connection, suppress(OSError):
            if os.fork() == 0:
                control.close()
                _keep(connection, data, run)


def _keep(connection: socket.socket, data: bytes, run: Run) -> NoReturn:
    """Run a request in a worker until it ends or the connection is closed, and exit."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request, limits = json.loads(data)
        end, open_end = os.pipe()
        worker = os.fork()
        if worker == 0:
            _work(connection, request, Allowance(**limits), run)
        os.close(open_end)  # now it closes when the worker ends
        select.select([end, connection.fileno()], [], [])
        os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            connection.sendall(b'{"limit": "cpu"}')
    finally:
        os._exit(0)


def _work(
    connection: socket.socket, request: Mapping[str, Any], limits: Allowance, run: Run
) -> None:
    try:
        _limit(limits)
        try:
            told: dict[str, Any] = {"answer": run(request)}
        except Exception as error:
            told = {"limit": find_limit(error)}
        connection.sendall(json.dumps(told).encode())
    finally:
        os._exit(0)


def find_limit(error: BaseException | None) -> Resource | None:
    """Return the limit that made a library fail, even if it raised another error."""
    while error:
        if isinstance(error, MemoryError):
            return "memory"
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return "bytes"
        error = error.__cause__ or error.__context__
    return None


def _limit(allowance: Allowance) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):  # the first to be killed if the machine runs out of memory
        Path("/proc/self/oom_score_adj").write_text("1000")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    for kind, most in (
        (resource.RLIMIT_CORE, 0),  # a core dump would contain the document's text
        (resource.RLIMIT_AS, pages * resource.getpagesize() + allowance.memory_bytes),
        (resource.RLIMIT_CPU, allowance.cpu_s),
        (resource.RLIMIT_FSIZE, allowance.written_bytes),
    ):
        _, hard = resource.getrlimit(kind)
        # With an unchanged hard limit, CPU overuse is SIGXCPU, unlike any other kill.
        is_free = hard == resource.RLIM_INFINITY
        resource.setrlimit(kind, (most if is_free else min(most, hard), hard))


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    serve(socket.socket(fileno=0), importlib.import_module(sys.argv[1]).run)
