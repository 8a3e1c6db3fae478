"""Starts, queries and stops supervisord."""

import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

from contract import durable
from deploy import launch, node
from deploy.stack import ROOT, Stack, StackError

_STOP_S = 150
#: Seconds for an answer. A program that is being stopped may take its time.
_ANSWER_S = 140
#: Seconds for a sign of life.
_ALIVE_S = 10
#: Seconds between two looks at whether it has ended.
_LOOK_S = 0.1


class Supervision:
    """supervisord of one stack, reached through its socket."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def is_running(self) -> bool:
        """Whether supervisord answers. Raises StackError if it is there and does not."""
        try:
            return bool(self._call("getState", timeout_s=_ALIVE_S))
        except TimeoutError as error:
            raise StackError(
                f"supervisord is there but does not answer at {self._stack.socket}. If it "
                "was stopped, let it go on (`kill -CONT`); else `kill -9` it and run "
                "`make up`."
            ) from error
        except OSError:
            return False

    def start(self, environment: dict[str, str], nginx: Path) -> None:
        """Raises StackError."""
        file = self._stack.run / "supervisord.conf"
        with self._stack.writing():
            durable.write(file, self._stack.render_supervisor(nginx))
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(file)]
        done = subprocess.run(
            command,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            umask=0o077,  # for its log; in its file is what its programs get
        )
        if done.returncode != 0:
            raise StackError(
                f"supervisord did not start: {done.stdout}{done.stderr}".strip()
            )

    def stop(self) -> None:
        """Stops every program and supervisord, and waits. Raises StackError if some stay."""
        pid = int(self._call("getPID"))
        supervisord = psutil.Process(pid)
        family = [supervisord, *supervisord.children(recursive=True)]
        self._call("shutdown")
        give_up_at = time.monotonic() + _STOP_S
        while launch.is_alive(supervisord) and time.monotonic() < give_up_at:
            # Only once a second does supervisord look by itself for programs that have ended.
            with suppress(OSError, HTTPException, Fault):
                self._call("getState", timeout_s=_LOOK_S)
            time.sleep(_LOOK_S)
        end_left(self._stack)
        if alive := launch.wait_for_end(family, _ALIVE_S):
            raise StackError(
                f"still running: {', '.join(str(process.pid) for process in alive)}"
            )

    def read_environment(self) -> dict[str, str]:
        """Read the environment that supervisord was started with and gives to its programs."""
        return psutil.Process(int(self._call("getPID"))).environ()

    def states(self) -> dict[str, str]:
        """Each program's state in supervisor's words, such as RUNNING or FATAL."""
        processes: Any = self._call("getAllProcessInfo")
        return {process["name"]: process["statename"] for process in processes}

    def signal(self, program: str, name: str) -> None:
        """Sends a signal to a program's main process. Raises StackError if it has none."""
        try:
            self._call("signalProcess", program, name)
        except Fault as fault:
            raise StackError(
                f"{program} is not running; `make up` starts it."
            ) from fault

    def start_stopped(self) -> list[str]:
        """Starts every program that is not running; returns their names."""
        stopped = [
            program
            for program, state in self.states().items()
            if state not in ("RUNNING", "STARTING")
        ]
        for program in stopped:
            self.restart(program)
        return stopped

    def restart(self, program: str) -> None:
        """Stops a program if it runs, and starts it, without waiting. Raises StackError."""
        with suppress(Fault):
            self._call("stopProcess", program)
        try:
            self._call("startProcess", program, False)
        except Fault as fault:
            raise StackError(
                f"{program} was not started: {fault.faultString}"
            ) from fault

    def _call(self, method: str, *arguments: Any, timeout_s: float = _ANSWER_S) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self._stack.socket}")
        # supervisor's own connection would wait forever.
        transport._get_connection = lambda: _Connection(self._stack.socket, timeout_s)
        with ServerProxy("http://127.0.0.1", transport=transport) as server:
            return getattr(server.supervisor, method)(*arguments)


def end(stack: Stack) -> bool:
    """Ends everything in a run directory, also what a killed supervisord has left, and
    removes its state. Returns whether supervisord was running. Raises StackError."""
    supervision = Supervision(stack)
    was_running = supervision.is_running()
    if was_running:
        supervision.stop()
    with stack.writing():
        end_left(stack)
        for folder in (stack.run / "torchserve" / "tmp", stack.metrics):
            shutil.rmtree(folder, ignore_errors=True)
        stack.socket.unlink(missing_ok=True)
        node.clear(stack.node)
    return was_running


def end_left(stack: Stack) -> None:
    """Ends what programs have left. Ray's workers and HAProxy outlive it."""
    for record in stack.run.glob("*.group"):
        launch.end_left(record.stem, stack.run)
        record.unlink()


class _Connection(HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
