"""Starts, queries and stops supervisord."""

import re
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

#: Seconds that supervisord may take to end, beyond those that its programs have to stop.
_STOP_S = 30
#: The longest wait for an answer, in seconds: stopping a program may take that long.
_ANSWER_S = 140
#: The longest wait for an answer about supervisord's state, in seconds.
_ALIVE_S = 10
#: Seconds between two checks whether supervisord has ended.
_LOOK_S = 0.1


class Supervision:
    """The supervisord of one stack, reached through its socket."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def is_running(self) -> bool:
        """Whether supervisord answers. Raises StackError if it hangs or is ending programs."""
        try:
            return bool(self._call("getState", timeout_s=_ALIVE_S))
        except Fault as fault:
            raise StackError("The stack is being stopped: try again later.") from fault
        except TimeoutError as error:
            raise StackError(
                f"supervisord exists but does not answer at {self._stack.socket}. If it "
                "was stopped, resume it with `kill -CONT`; otherwise `kill -9` it and run "
                "`make up`."
            ) from error
        except OSError:
            return False

    def start(self, environment: dict[str, str], nginx: Path) -> None:
        """Start supervisord and its programs. Raises StackError."""
        file = self._stack.run / "supervisord.conf"
        with self._stack.writing():
            durable.write(file, self._stack.render_supervisor(nginx))
        done = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(file)],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            umask=0o077,  # for its log; its file sets the umask of its programs
        )
        if done.returncode != 0:
            raise StackError(
                f"supervisord did not start: {done.stdout}{done.stderr}".strip()
            )

    def stop(self) -> None:
        """Stop every program and supervisord, and wait. Raises StackError if some remain."""
        supervisord = psutil.Process(int(self._call("getPID")))
        family = [supervisord, *supervisord.children(recursive=True)]
        # They stop one after the other, and requests may finish.
        file = self._stack.run / "supervisord.conf"
        text = file.read_text("utf-8") if file.exists() else ""
        waits = re.findall(r"(?m)^stopwaitsecs=(\d+)", text)
        self._call("shutdown")
        give_up_at = time.monotonic() + _STOP_S + sum(map(int, waits))
        while launch.is_alive(supervisord) and time.monotonic() < give_up_at:
            # A call makes supervisord check for ended programs; else it does so once a second.
            with suppress(OSError, HTTPException, Fault):
                self._call("getState", timeout_s=_LOOK_S)
            time.sleep(_LOOK_S)
        end_left(self._stack)
        if alive := launch.wait_for_end(family, _ALIVE_S):
            raise StackError(
                f"still running: {', '.join(str(process.pid) for process in alive)}"
            )

    def read_environment(self) -> dict[str, str]:
        """Return the environment that supervisord was started with and passes to programs."""
        return psutil.Process(int(self._call("getPID"))).environ()

    def states(self) -> dict[str, str]:
        """Return each program's state by supervisor's name, such as RUNNING or FATAL. Raises
        StackError if supervisord has ended, or is ending its programs."""
        try:
            processes: Any = self._call("getAllProcessInfo")
        except (ConnectionError, FileNotFoundError, Fault) as error:
            raise StackError("The stack has been stopped meanwhile.") from error
        return {process["name"]: process["statename"] for process in processes}

    def signal(self, program: str, name: str) -> None:
        """Send a signal to a program's main process. Raises StackError if it has none."""
        try:
            self._call("signalProcess", program, name)
        except Fault as fault:
            raise StackError(
                f"{program} is not running; `make up` starts it."
            ) from fault

    def start_stopped(self) -> list[str]:
        """Start every program that is not running, and return their names."""
        stopped = [
            program
            for program, state in self.states().items()
            if state not in ("RUNNING", "STARTING")
        ]
        for program in stopped:
            self.restart(program)
        return stopped

    def restart(self, program: str) -> None:
        """Stop a program if it runs, and start it without waiting. Raises StackError."""
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
    """End every process of a run directory, including those left by a killed supervisord, and
    remove its state. Returns whether supervisord was running. Raises StackError."""
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
    """Kill the processes left by programs: Ray's workers and HAProxy outlive Ray."""
    for record in stack.run.glob("*.group"):
        launch.end_left(record.stem, stack.run)
        record.unlink(missing_ok=True)  # another `down` may run


class _Connection(HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
