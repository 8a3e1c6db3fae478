"""Starts, watches, queries and stops a real stack on its own ports and in its own directory."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import Any

import psutil
import requests
from urllib3 import BaseHTTPResponse, PoolManager

from benchmarks.instruments.generator import Generator, LoadReply, Manner, Target
from benchmarks.instruments.running import claim_port_offset, undo_after
from contract import variables
from deploy import launch
from deploy import stack as stacks
from deploy.stack import ROOT, Stack
from ray_backend.nodes import LOOPBACK
from tests.programs import call

START_S = 300
#: A word in the command line of TorchServe's workers.
MODEL_WORKER = "model_service_worker"
#: A pause before the next request: without it, clients alone would saturate the cores.
_PAUSE_S = 0.05
_JOIN_S = 60.0


def run_deploy(
    *arguments: str, cache: Path, root: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run `python -m deploy …` as a clone's Makefile does, for a user of another TorchServe."""
    given = {"BABELGATE_CACHE": str(cache), "TS_CONFIG_FILE": "/their/properties"}
    environment = os.environ | given | {"COLUMNS": "160"}
    command = (sys.executable, "-m", "deploy", *arguments)
    return call(*command, cwd=root, env=environment, limit_s=START_S)


def operate(
    run: Path, cache: Path, command: str, *options: str, expect: int = 0, **given: Path
) -> str:
    """Run an operator's command, which must exit as expected, and return its output."""
    arguments = (command, "--run-dir", str(run), *options)
    done = run_deploy(*arguments, cache=cache, **given)
    said = done.stdout + done.stderr
    assert done.returncode == expect, said
    # An error may contain Gunicorn's own.
    assert "Traceback" not in done.stderr.partition("\n")[0]
    return said


def ask_from(address: str, method: str, url: str, **given: Any) -> BaseHTTPResponse:
    """Send a request from one of this machine's addresses, on a new connection."""
    with PoolManager(
        source_address=(address, 0), timeout=START_S, retries=False
    ) as pool:
        return pool.request(method, url, **given)


def read_metric(url: str, name: str, label: str = "") -> float:
    """Sum a metric's samples that have a label such as `model="ko"`."""
    page = requests.get(url, timeout=START_S).text
    found = re.findall(rf"(?m)^{name}{{[^}}]*{label}[^}}]*}} (\S+)", page)
    return sum(map(float, found))


def list_listening(connections: Iterable[Any]) -> set[tuple[str, int]]:
    """Return the addresses and ports of psutil's connections that listen."""
    return {
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }


def wait_until(
    condition: Callable[[], object], *, limit_s: float = 90, every_s: float = 0.05
) -> None:
    give_up_at = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {limit_s} s"
        time.sleep(every_s)


@contextmanager
def keep_asking(
    target: Target, manner: Manner, *, clients: int = 16
) -> Iterator[list[LoadReply]]:
    """Let clients ask during the block, with pauses; the yielded list is complete after it."""
    generator, stop = Generator(target, manner), threading.Event()

    def find_next(reply: LoadReply) -> float | None:
        return None if stop.is_set() else reply.ended_s + _PAUSE_S

    arguments = ([0.0] * clients, find_next)
    thread = threading.Thread(target=generator.run, args=arguments, daemon=True)
    thread.start()
    try:
        yield generator.replies
    finally:
        stop.set()
        thread.join(_JOIN_S)


def use_after_unloading(url: str) -> None:
    """Send requests into French from many clients until they find the model unloaded."""
    numbers = count()  # answers to equal texts are cached

    def ask(number: int) -> requests.Response:
        row = {"src_lang": "en", "src_text": f"It is {number}.", "tgt_lang": "fr"}
        return requests.post(f"{url}/translate", json=row, timeout=90)

    def was_unloaded() -> bool:
        assert is_ready(url)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, islice(numbers, 8)))
        assert {answer.status_code for answer in answers} == {200}
        return any("load;dur=" in a.headers["Server-Timing"] for a in answers)

    wait_until(was_unloaded, every_s=3)


def is_ready(url: str, path: str = "/readyz") -> bool:
    """Whether all languages are ready, or what else a path tells."""
    try:
        return requests.get(f"{url}{path}", timeout=5).ok
    except requests.RequestException:
        return False


def list_glossaries(url: str) -> list[str]:
    """Return the ids of all glossaries."""
    listed = requests.get(f"{url}/glossaries", timeout=30).json()
    return [glossary["id"] for glossary in listed["glossaries"]]


def delete_glossaries(url: str) -> None:
    for glossary_id in list_glossaries(url):
        requests.delete(f"{url}/glossaries/{glossary_id}", timeout=30)


def processes(stack: Stack) -> list[psutil.Process]:
    """Return supervisord and its descendants, without those that have just ended."""
    supervisord = psutil.Process(int((stack.run / "supervisord.pid").read_text()))
    family = [supervisord, *supervisord.children(recursive=True)]
    return [process for process in family if write_command(process)]


def write_command(process: psutil.Process) -> str:
    """Return the command line of a process, or an empty string once it has ended."""
    with suppress(psutil.NoSuchProcess):  # a zombie, too
        return " ".join(process.cmdline())
    return ""


@contextmanager
def start_stack(
    run: Path,
    cache: Path,
    *options: str,
    content: object = None,
    command: str = "up",
    address: str = LOOPBACK,
) -> Iterator[Stack]:
    """Start a stack with a map of this content; stop it after the block, without a trace."""
    if content:
        map_path = run.with_name(f"{run.name}-map.json")
        map_path.write_text(json.dumps(content))
        options = ("--map", str(map_path), *options)
    offset = ("--port-offset", str(claim_port_offset(address)))
    down = [sys.executable, "-m", "deploy", "down", "--run-dir", str(run)]
    try:
        with undo_after(down, START_S):
            arguments = (command, *offset, *options, "--run-dir", str(run))
            done = run_deploy(*arguments, cache=cache)
            assert done.returncode == 0, done.stdout + done.stderr
            started = stacks.read(run)
            assert started is not None
            yield started
    except BaseException:
        for log in sorted(run.glob("logs/*.log")):  # pytest shows them with the failure
            sys.stdout.write(f"{log}\n{log.read_text('utf-8')[-5000:]}\n")
        raise
    finally:
        assert not list_ours(run)
        assert not [path for path in run.rglob("*") if path.is_socket()]


def list_ours(run: Path) -> list[psutil.Process]:
    """Return a stack's processes, including supervisord and the stack's own commands."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            mark = process.environ().get(variables.RUN_DIR.name)
            if mark == str(run) or launch.find_program(process, run):
                found.append(process)
    return found


def find_processes(stack: Stack, word: str) -> list[psutil.Process]:
    """Return the processes with a word in their command line."""
    return [process for process in processes(stack) if word in write_command(process)]


#: Functions that find the processes that a test may kill or stop.
VICTIMS: dict[str, Callable[[Stack], psutil.Process]] = {
    "nginx master": lambda stack: stack.find_leader("nginx"),
    "nginx worker": lambda stack: stack.find_leader("nginx").children()[-1],
    "gateway master": lambda stack: stack.find_leader("gateway"),
    "gateway worker": lambda stack: stack.find_leader("gateway").children()[-1],
    "registrar": lambda stack: stack.find_leader("registrar"),
    "documents": lambda stack: stack.find_leader("documents"),
    "java": lambda stack: find_processes(stack, "org.pytorch.serve.ModelServer")[0],
    "model worker": lambda stack: find_processes(stack, MODEL_WORKER)[0],
    "supervisord": lambda stack: processes(stack)[0],
}


def kill(stack: Stack, name: str, *, limit_s: float = 90) -> None:
    """Kill one of VICTIMS. Returns once it is replaced and every language is ready."""
    victim = VICTIMS[name](stack)
    victim.kill()
    victim.wait(limit_s)

    def is_replaced() -> bool:
        with suppress(psutil.NoSuchProcess, IndexError):
            return VICTIMS[name](stack).pid != victim.pid
        return False

    wait_until(is_replaced, limit_s=limit_s)
    wait_until(lambda: is_ready(stack.url), limit_s=limit_s)
