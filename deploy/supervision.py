"""supervisord, started, asked and stopped."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

from deploy.stack import ROOT, Stack, StackError

PROGRAMS = ("nginx", "gateway", "registrar", "torchserve")

_STOP_S = 150


class Supervision:
    """supervisord of one stack, reached through its socket."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def is_running(self) -> bool:
        """Whether supervisord answers."""
        try:
            return bool(self._server.supervisor.getState())
        except OSError:
            return False

    def start(self, environment: dict[str, str]) -> None:
        """Starts supervisord, which starts the programs."""
        command = [
            sys.executable,
            "-m",
            "supervisor.supervisord",
            "-c",
            str(ROOT / "deploy/supervisord.conf"),
        ]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise StackError(
                f"supervisord did not start: {done.stdout}{done.stderr}".strip()
            )

    def stop(self) -> None:
        """Stops every program, then supervisord, and waits until all have gone.

        Raises StackError where something is still there after two minutes and a half.
        """
        pid = int(self._server.supervisor.getPID())
        supervisord = psutil.Process(pid)
        family = [supervisord, *supervisord.children(recursive=True)]
        self._server.supervisor.shutdown()
        _, alive = psutil.wait_procs(family, timeout=_STOP_S)
        if alive:
            raise StackError(
                f"still running: {', '.join(str(process.pid) for process in alive)}"
            )

    def states(self) -> dict[str, str]:
        """Each program's state in supervisor's words, such as RUNNING or FATAL."""
        processes: Any = self._server.supervisor.getAllProcessInfo()
        return {process["name"]: process["statename"] for process in processes}

    def signal(self, program: str, name: str) -> None:
        """Sends a signal to a program's main process."""
        self._server.supervisor.signalProcess(program, name)

    def restart(self, program: str) -> None:
        """Stops a program if it runs, and starts it."""
        with suppress(Fault):
            self._server.supervisor.stopProcess(program)
        self._server.supervisor.startProcess(program)

    @property
    def _server(self) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self._stack.socket}")
        return ServerProxy("http://127.0.0.1", transport=transport)
