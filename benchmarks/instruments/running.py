"""The stack that is running, and stacks and servers that are started for one measurement."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import requests

import catalog
from benchmarks.instruments.generator import Leaders, Request, Target
from benchmarks.instruments.load import find_leaders
from benchmarks.instruments.ports import claim_port_offset
from catalog.devices import count_gpus
from contract import variables
from contract.rows import prediction_path
from contract.tasks import TRANSLATION
from deploy import stack as stacks
from deploy.stack import GATEWAY, ROOT, StackError
from deploy.supervision import Supervision
from torchserve_backend.management import ManagementError, read_key

START_S = 900
_STOP_S, _LOOK_S = 180, 0.1
_TAIL_LINES = 20


@contextmanager
def run_program(
    command: list[str], log: Path, *, folder: Path, environment: Mapping[str, str]
) -> Iterator[psutil.Popen]:
    """A program in a session of its own, which ends with the block."""
    with log.open("wb") as output:
        leader = psutil.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield leader
    finally:
        with _uninterrupted():
            _end(leader)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM while the block ends programs: a second one would leave them
    behind. Only the main thread is ever interrupted."""
    is_main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    # Programs that are started meanwhile do not inherit it, as they would SIG_IGN.
    handlers = {each: signal.signal(each, lambda *_: None) for each in signals}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def wait_until_ready(
    is_ready: Callable[[], bool], name: str, leaders: Mapping[Path, psutil.Popen]
) -> None:
    """Waits while the programs run; one that does not answer yet is no error. Raises
    StackError with the ends of the programs' logs, which `leaders` names."""
    give_up_at = time.monotonic() + START_S
    while True:
        with suppress(requests.RequestException, ManagementError):
            if is_ready():
                return
        has_ended = any(leader.poll() is not None for leader in leaders.values())
        if has_ended or time.monotonic() > give_up_at:
            break
        time.sleep(_LOOK_S)
    lines = [f"{name} does not come up:"]
    for log in leaders:
        lines += log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
    raise StackError("\n".join(lines))


def _end(leader: psutil.Popen) -> None:
    """Asks the leader to end, then kills its session, with what has lost its parent."""
    family = _find_session(leader.pid)
    with suppress(psutil.NoSuchProcess):
        leader.terminate()
    with suppress(psutil.TimeoutExpired):
        leader.wait(_STOP_S)
    left = {leader, *family, *_find_session(leader.pid)}
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=_STOP_S)


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
    #: The paths of target languages that differ from `/`.
    paths: Mapping[str, str] = field(default_factory=dict)
    #: The metrics page of TorchServe and its workers, where there is one.
    metrics_url: str = ""

    def aim(self, requests: Sequence[Request]) -> Target:
        """Return a load generator for it that also measures its processes."""
        return Target(self.url, requests, self.headers, self.leaders)


def find_running(run: Path) -> Running:
    """The stack that `make up` has started here. Raises StackError if there is none."""
    stack = stacks.read(run.resolve())
    if stack is None or not Supervision(stack).is_running():
        raise StackError("The stack is not running; `make up` starts it.")
    key = variables.CLIENT_KEY.read()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Running(stack.url, find_leaders(stack), headers)


#: Starts a stack in a directory, with a map and a model, for as long as it is entered.
Start = Callable[[Path, Path, Path], AbstractContextManager[Running]]


@contextmanager
def start(run: Path, map_path: Path, model: Path | None = None) -> Iterator[Running]:
    """Runs a stack with `python -m deploy` while the block lasts. `model` replaces the
    map's model for translation. Raises StackError with its message if it does not start."""
    options = ["--map", str(map_path), "--port-offset", str(claim_port_offset())]
    if model:
        options += ["--model", str(model)]
    try:
        _deploy("up", run, *options, timeout_s=START_S)
        stack = stacks.read(run)
        if stack is None:
            raise StackError(f"{run} has no stack.")
        yield Running(stack.url, find_leaders(stack), metrics_url=stack.metrics_url)
    finally:
        with _uninterrupted():
            _deploy("down", run, "--forget", timeout_s=_STOP_S)


def reload(run: Path) -> None:
    """Runs `make reload` for the stack here. Raises StackError with its message."""
    _deploy("reload", run, timeout_s=_STOP_S)


@contextmanager
def start_torchserve(run: Path, map_path: Path, model: Path) -> Iterator[Running]:
    """The same stack, asked at TorchServe's own port. Raises StackError."""
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
    """A gateway with the map's models in its own process. `model` replaces the map's model
    for translation. Raises StackError."""
    settings = {"GATEWAY_BACKEND": "embedded", variables.MAP.name: str(map_path)}
    if model:
        settings[variables.MODEL.name] = str(model)
    return _start_gunicorn(run, settings)


def start_before_cluster(
    run: Path, map_path: Path, *, urls: Sequence[str], key_file: Path
) -> AbstractContextManager[Running]:
    """A gateway with one process that asks these ingress addresses of a cluster, which need
    not have all of the map's models. Raises StackError."""
    settings = {
        "GATEWAY_BACKEND": "ray",
        "WEB_CONCURRENCY": "1",
        variables.MAP.name: str(map_path),
        variables.RUN_DIR.name: str(run),
        variables.RAY_URLS.name: ",".join(urls),
        variables.RAY_KEY_FILE.name: str(key_file),
    }
    return _start_gunicorn(run, settings, "/healthz")


@contextmanager
def start_gateway(
    run: Path, map_path: Path, more: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A gateway with one process and a fake TorchServe, and `more` settings. Raises
    StackError."""
    run.mkdir(parents=True, exist_ok=True)
    key_file = run / "keys.json"
    keys = dict.fromkeys(("inference", "management"), {"key": "any"})
    key_file.write_text(json.dumps(keys), "utf-8")
    command = [sys.executable, "-m", "benchmarks.instruments.instant"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as instant:
        try:
            assert instant.stdout
            url = f"http://127.0.0.1:{instant.stdout.readline().strip()}"
            settings = {
                "BABELGATE_MAP": str(map_path),
                "BABELGATE_INFERENCE_URL": url,
                "BABELGATE_MANAGEMENT_URL": url,
                "BABELGATE_KEY_FILE": str(key_file),
                "WEB_CONCURRENCY": "1",
                **(more or {}),
            }
            with _start_gunicorn(run, settings) as running:
                yield running
        finally:
            instant.terminate()


@contextmanager
def _start_gunicorn(
    run: Path, settings: Mapping[str, str], page: str = "/readyz"
) -> Iterator[Running]:
    """Until the `page` answers with 200."""
    bind = f"127.0.0.1:{GATEWAY + claim_port_offset()}"
    run.mkdir(parents=True, exist_ok=True)
    gunicorn = Path(sys.executable).with_name("gunicorn")
    config = ("--config", "gateway/gunicorn.conf.py", "gateway.app:create_app()")
    log, url = run / "gateway.log", f"http://{bind}"
    environment = {**settings, "BABELGATE_GATEWAY_BIND": bind}
    command = [str(gunicorn), *config]
    with run_program(command, log, folder=ROOT, environment=environment) as process:
        ask = partial(requests.get, url + page, timeout=5)
        wait_until_ready(lambda: ask().ok, "the gateway", {log: process})
        yield Running(url, {"gateway": process})


def read_map(path: Path, model: Path | None = None) -> catalog.Catalog:
    """A map on this machine; `model` replaces its model for translation."""
    chosen = str(model) if model else None
    return catalog.load(path, gpus=count_gpus(), model=chosen)


def merge(models: catalog.Catalog) -> catalog.Model:
    """The model of a map for translation where one process serves all languages."""
    return replace(models.models[0], languages=models.languages)


def write_map(
    path: Path,
    settings: Mapping[str, Any],
    languages: Collection[str] = (),
    *,
    device: Any = None,
    task: str = TRANSLATION,
) -> Path:
    """The shipped map with this task alone, other `settings`, and `languages` and
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


def _deploy(command: str, run: Path, *options: str, timeout_s: float) -> None:
    """Runs in its own session: Ctrl-C must not interrupt the stack's end."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy", command, "--run-dir", str(run), *options],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        start_new_session=True,
    )
    if done.returncode != 0:
        raise StackError(
            f"`deploy {command}` of {run} failed:\n{done.stdout}{done.stderr}"
        )
