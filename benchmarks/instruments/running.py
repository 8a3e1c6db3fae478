"""Finds the running stack, and runs stacks and servers for one measurement."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import psutil
import requests

import catalog
from benchmarks.instruments.generator import Leaders, Request, Target, ask_once
from benchmarks.instruments.load import find_leaders
from catalog import checkpoint
from catalog.devices import count_gpus
from contract import variables
from contract.rows import prediction_path
from contract.tasks import TRANSLATION
from deploy import stack as stacks
from deploy.stack import GATEWAY, ROOT, Backend, Stack, StackError
from deploy.supervision import Supervision
from ray_backend.deployment import DashboardError
from ray_backend.nodes import LOOPBACK
from torchserve_backend.management import ManagementError, read_key

START_S = 900
_STOP_S, _KILL_S, _LOOK_S = 180, 20, 0.1
_TAIL_LINES = 20
#: Ends a program when its parent process ends, even if that is killed.
_WITH_US = ("setpriv", "--pdeathsig", "TERM")
#: The offsets of stacks' ports, below Linux's ephemeral ports.
_OFFSETS = range(1000, 20_000, 500)
#: The statuses of a stack that requires TLS or a key.
_WANTING = frozenset({"400", "401", "403"})
#: The offsets that this process has claimed.
_claimed: set[int] = set()


def claim_port_offset(address: str = LOOPBACK) -> int:
    """Return an offset at which every port of a stack is free, with any backend. No other
    process gets it while this one runs; this one may get it again once the ports are free
    again. Raises StackError if there is none."""
    for offset in _OFFSETS:
        stack = Stack(Path(), Path(), None, offset, address=address)
        with suppress(StackError, OSError):
            for backend in get_args(Backend):
                replace(stack, backend=backend).check_ports()
            _claim(offset)
            return offset
    raise StackError("No free ports for a stack.")


def _claim(offset: int) -> None:
    """Bind a name in Linux's abstract namespace, which the kernel frees when the process
    ends, even if it is killed. Raises OSError if another process has it."""
    if offset not in _claimed:
        with socket.socket(socket.AF_UNIX) as claim:
            claim.bind(f"\0babelgate-port-offset-{offset}")
            claim.detach()
        _claimed.add(offset)


def run_command(
    command: Sequence[str], limit_s: float, more: Mapping[str, str] | None = None
) -> str:
    """Run a command with `more` variables; return its output. Raises StackError if it fails."""
    done = subprocess.run(
        [*_WITH_US, *command],
        cwd=ROOT,
        env=os.environ | (more or {}),
        capture_output=True,
        text=True,
        timeout=limit_s,
        start_new_session=True,
    )
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}"
        raise StackError(f"`{' '.join(command)}` failed:\n{said}")
    return done.stdout


@contextmanager
def run_program(
    command: list[str], log: Path, *, folder: Path, environment: Mapping[str, str]
) -> Iterator[psutil.Popen]:
    """Run a program in its own session until the block or this program ends."""
    with log.open("wb") as output:
        leader = psutil.Popen(
            [*_WITH_US, *command],
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield leader
    finally:
        _end(leader)


@contextmanager
def undo_after(command: Sequence[str], limit_s: float) -> Iterator[None]:
    """Run `command` when the block or this program ends, even if it is killed. Raises
    StackError if the command fails."""
    with tempfile.TemporaryFile("w+") as output:
        guard = subprocess.Popen(
            ["sh", "-c", 'cat; exec "$@"', "sh", *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            guard.communicate(timeout=limit_s)
            output.seek(0)
            if guard.returncode:
                raise StackError(f"`{' '.join(command)}` failed:\n{output.read()}")


def wait_until(
    condition: Callable[[], object],
    goal: str,
    limit_s: float,
    leaders: Mapping[Path, psutil.Popen] | None = None,
) -> None:
    """Wait until a condition holds; a server that does not answer yet is no error. Raises
    StackError with the goal and the ends of the logs after `limit_s`, or if a leader ends."""
    leaders = leaders or {}
    began = time.monotonic()
    while True:
        with suppress(requests.RequestException, ManagementError, DashboardError):
            if condition():
                return
        has_ended = any(leader.poll() is not None for leader in leaders.values())
        if has_ended or time.monotonic() - began > limit_s:
            break
        time.sleep(_LOOK_S)
    lines = [f"not within {time.monotonic() - began:.0f} s: {goal}"]
    for log in leaders:
        lines += log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
    raise StackError("\n".join(lines))


def _end(leader: psutil.Popen) -> None:
    """Terminate the leader, then kill its session, including orphans."""
    family = _find_session(leader.pid)
    with suppress(psutil.NoSuchProcess):
        leader.terminate()
    with suppress(psutil.TimeoutExpired):
        leader.wait(_STOP_S)
    kill({leader, *family, *_find_session(leader.pid)})


def kill(processes: Collection[psutil.Process]) -> None:
    """Kill processes, and wait until they have ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_KILL_S)


def _find_session(number: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == number:
                found.append(process)
    return found


@dataclass(frozen=True)
class Running:
    """The address of a running stack, and its processes."""

    url: str
    leaders: Leaders
    #: Sent with every request.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The paths of target languages, if not `/`.
    paths: Mapping[str, str] = field(default_factory=dict)
    #: The metrics page of TorchServe and its workers; empty if there is none.
    metrics_url: str = ""

    def aim(self, requests: Sequence[Request]) -> Target:
        """Return a target whose processes are measured too. Raises StackError if the stack
        refuses the first request because it requires TLS or another key."""
        target = Target(self.url, requests, self.headers, self.leaders)
        if (status := ask_once(target).status) in _WANTING:
            raise StackError(
                f"{self.url} refuses a request with {status}. If the stack requires a "
                f"key (401), set {variables.CLIENT_KEY.name} to it; if it requires TLS "
                "(400), benchmarks cannot measure it."
            )
        return target


def find_running(run: Path) -> Running:
    """Find the stack that `make up` has started here. Raises StackError if there is none."""
    stack = stacks.read(run.resolve())
    if stack is None or not Supervision(stack).is_running():
        raise StackError("The stack is not running; `make up` starts it.")
    key = variables.CLIENT_KEY.read()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Running(stack.url, find_leaders(stack), headers)


#: Loads repeat their sentences, but each one must be translated.
CACHE_OFF = {"BABELGATE_CACHE_BYTES": "0"}
CACHE_ON = {"BABELGATE_CACHE_BYTES": str(64 << 20)}
#: A context manager that runs a stack in a directory, with a map and a model.
Start = Callable[[Path, Path, Path], AbstractContextManager[Running]]


@contextmanager
def start(run: Path, map_path: Path, model: Path | None = None) -> Iterator[Running]:
    """Run a stack with `python -m deploy` while the block lasts. `model` replaces the map's
    model for translation. Raises StackError with its message if it does not start."""
    options = ["--map", str(map_path), "--port-offset", str(claim_port_offset())]
    if model:
        options += ["--model", str(model)]
    with undo_after(_write_command("down", run, "--forget"), _STOP_S):
        up = _write_command("up", run, *options)
        run_command(up, START_S, {"COLUMNS": "160", **CACHE_OFF})
        stack = stacks.read(run)
        if stack is None:
            raise StackError(f"{run} has no stack.")
        yield Running(stack.url, find_leaders(stack), metrics_url=stack.metrics_url)


def reload(run: Path) -> None:
    """Run `make reload` for the stack of a directory. Raises StackError with its message."""
    run_command(_write_command("reload", run), _STOP_S)


@contextmanager
def start_torchserve(run: Path, map_path: Path, model: Path) -> Iterator[Running]:
    """Run the same stack, but send requests to TorchServe's own port. Raises StackError."""
    routes = read_map(map_path).routes
    with start(run, map_path, model) as running:
        stack = stacks.read(run)
        assert stack is not None
        key = read_key(stack.key_file, "inference")
        yield replace(
            running,
            url=stack.inference_url,
            headers={"Authorization": f"Bearer {key}"},
            paths={lang: prediction_path(m.name) for (_, lang), m in routes.items()},
            metrics_url="",
        )


def start_embedded(
    run: Path, map_path: Path, model: Path | None = None
) -> AbstractContextManager[Running]:
    """Run a gateway with the map's models in its own process. `model` replaces the map's
    model for translation. Raises StackError."""
    settings = {"GATEWAY_BACKEND": "embedded", variables.MAP.name: str(map_path)}
    if model:
        settings[variables.MODEL.name] = str(model)
    return start_gunicorn(run, settings)


@contextmanager
def start_gunicorn(
    run: Path, settings: Mapping[str, str], page: str = "/readyz"
) -> Iterator[Running]:
    """Run only a gateway, and enter the block once `page` returns 200. Raises StackError."""
    bind = f"127.0.0.1:{GATEWAY + claim_port_offset()}"
    run.mkdir(parents=True, exist_ok=True)
    gunicorn = Path(sys.executable).with_name("gunicorn")
    config = ("--config", "gateway/gunicorn.conf.py", "gateway.app:create_app()")
    log = run / "gateway.log"
    url = f"http://{bind}"
    environment = {**CACHE_OFF, **settings, "BABELGATE_GATEWAY_BIND": bind}
    command = [str(gunicorn), *config]
    with run_program(command, log, folder=ROOT, environment=environment) as process:
        ask = partial(requests.get, url + page, timeout=5)
        wait_until(lambda: ask().ok, "the gateway answers", START_S, {log: process})
        yield Running(url, {"gateway": process})


def find_model(name: str) -> Path:
    """Return the directory of a path, hub name or `random_model.SIZE`. Raises ModelError."""
    cache = checkpoint.default_cache()
    if "/" not in name and not Path(name).exists():
        from benchmarks.instruments import random_model

        if name == random_model.SIZE:
            return random_model.find_size(cache / "benchmarks")
    return checkpoint.fetch(name, cache)


def read_map(path: Path, model: Path | None = None) -> catalog.Catalog:
    """Load a map for this machine; `model` replaces its model for translation."""
    return catalog.load(path, gpus=count_gpus(), model=str(model) if model else None)


def merge(models: catalog.Catalog) -> catalog.Model:
    """Return a map's translation model as if one process served all languages."""
    return replace(models.models[0], languages=models.languages)


def write_map(
    path: Path,
    settings: Mapping[str, Any],
    languages: Collection[str] = (),
    *,
    device: Any = None,
    task: str = TRANSLATION,
) -> Path:
    """Write the shipped map with only this task, other `settings`, and `languages` and
    `device` if they are given. Raises ValueError for a language that is not in the map."""
    shipped = json.loads(catalog.MAP.read_text("utf-8"))
    content = {task: shipped.get(task, {}) | dict(settings)}
    if task == TRANSLATION:
        known = shipped["cuda_id"]
        if missing := set(languages) - set(known):
            raise ValueError(f"not in the map: {', '.join(sorted(missing))}")
        content["cuda_id"] = {
            language: device or own
            for language, own in known.items()
            if not languages or language in languages
        }
    elif device:
        content[task]["devices"] = device
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), "utf-8")
    return path


def _write_command(command: str, run: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "deploy", command, "--run-dir", str(run), *options]
