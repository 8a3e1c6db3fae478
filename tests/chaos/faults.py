"""The faults: each disrupts a stack for seconds and leaves the recovery to it."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from urllib.parse import urlsplit

import psutil
import requests

from benchmarks.instruments.generator import (
    Generator,
    Manner,
    Request,
    Target,
    draw_arrivals,
    name_address,
)
from tests.chaos.load import (
    BROKEN,
    HUNG,
    PATIENCE_S,
    PROBLEM,
    RIGHT,
    Exchange,
    Question,
    ask,
    draw_beginning,
    draw_junk,
    draw_text,
    write_body,
    write_message,
)
from tests.chaos.scene import Scene, repeat
from tests.e2e.real_stack import VICTIMS, is_ready, run_deploy

Fault = Callable[[Scene, random.Random], None]

_HOSTILE_LIMIT_S = 5.0
_FLOOD_S, _FLOOD_LIMIT_S, _TIMES_CAPACITY, _SENTENCES = 2.0, 0.5, 4, 500
_FLOOD = Manner(int(_FLOOD_LIMIT_S * 1000), 200, _FLOOD_LIMIT_S + PATIENCE_S)
_CROWD = 40
_NGINX = ("nginx master", "nginx worker")
_WRITERS = ("gateway master", "gateway worker")
#: The seconds of each stop. After more, Java and its worker would be taken for dead; for the
#: gateway worker, nginx answers by then.
_STOPS_S = {
    "nginx worker": 1.5,
    "gateway worker": 3.0,
    "java": 2.0,
    "model worker": 2.0,
    "registrar": 1.0,
    "supervisord": 0.5,
}
#: The period of throttling in seconds, and the part of it that the gateway may run.
_PERIOD_S, _PART = 0.1, 0.2
#: Seconds after which a busy neighbour ends in any case.
_BUSY_S = 60


def kill(scene: Scene, rng: random.Random, *, name: str) -> None:
    """Kill a process. Connections break only with nginx; a killed gateway cuts its answer."""
    victim = scene.find(name)
    if victim is None:
        return
    if name not in _NGINX:
        if name in _WRITERS:
            scene.note_cut()
        victim.kill()
        return
    with scene.note(scene.shut):
        victim.kill()
        find = partial(VICTIMS[name], scene.stack)
        scene.wait(f"{name} after kill -9", lambda: find().pid != victim.pid)
        # nginx refuses TRACE without asking the gateway.
        trace = partial(requests.request, "TRACE", scene.stack.url, timeout=2)
        scene.wait("nginx", lambda: trace().status_code > 0)


def kill_readers(scene: Scene, rng: random.Random) -> None:
    """Kill the processes that read long texts for gateway workers."""
    master = scene.find("gateway master")
    for worker in master.children() if master else ():
        with suppress(psutil.NoSuchProcess):
            for reader in worker.children():
                reader.kill()


def stop(scene: Scene, rng: random.Random, *, name: str) -> None:
    """Send SIGSTOP, and SIGCONT after a while. Only a stop of nginx may delay answers."""
    victim = scene.find(name)
    if victim is None:
        return
    with scene.note(scene.frozen if name in _NGINX else []):
        victim.suspend()
        try:
            # Fill its pipe: nginx logs each of these requests.
            if name == "supervisord":
                kind, junk = "junk while it stands still", Request(b"", "/no/such/path")
                _ask_at(scene, kind, [junk], [number / 900 for number in range(900)])
            time.sleep(_STOPS_S[name])
        finally:
            # It may have been taken for dead.
            with suppress(psutil.NoSuchProcess):
                victim.resume()


def reload(scene: Scene, rng: random.Random) -> None:
    if scene.wait("ready for a reload", lambda: is_ready(scene.stack.url)):
        run = str(scene.stack.run)
        done = run_deploy("reload", "--run-dir", run, cache=scene.cache)
        if done.returncode != 0:
            scene.violations.append(f"reload: {done.stdout}{done.stderr}")


def break_map(scene: Scene, rng: random.Random) -> None:
    """Kill the gateway's workers while the map has a syntax error; then undo the edit."""
    master = scene.find("gateway master")
    if master is None:
        return
    right = scene.stack.map.read_bytes()
    scene.stack.map.write_bytes(right[: rng.randrange(1, len(right))])
    try:
        scene.note_cut()
        for worker in master.children():
            worker.kill()
        ask = partial(requests.get, f"{scene.stack.url}/healthz", timeout=5)
        scene.wait("the gateway with a broken map", lambda: ask().ok)
        if not master.is_running():
            scene.violations.append("a map being edited ended the whole gateway")
    finally:
        scene.stack.map.write_bytes(right)


def flood(scene: Scene, rng: random.Random) -> None:
    """Send several times the capacity, from clients that do not wait for answers."""
    rate = max(100.0, _TIMES_CAPACITY * scene.capacity)
    arrivals = draw_arrivals(rate, _FLOOD_S, rng.randrange(2**32))
    _ask_at(scene, "flood", write_flood(scene.marker), arrivals)


def flood_beside_neighbours(scene: Scene, rng: random.Random) -> None:
    """Flood the stack while other programs use all cores."""
    code = f"import time\nwhile time.monotonic() < {time.monotonic() + _BUSY_S}: pass"
    with ExitStack() as neighbours:
        for _ in range(os.cpu_count() or 1):
            # A session each, so that the kernel gives each as much CPU time as the stack.
            busy = subprocess.Popen(
                [sys.executable, "-c", code], start_new_session=True
            )
            neighbours.callback(busy.wait)
            neighbours.callback(busy.kill)
        flood(scene, rng)


def flood_throttled(scene: Scene, rng: random.Random) -> None:
    """Flood the stack while gateway workers run a fifth of the time, as under `cpulimit`."""
    master = scene.find("gateway master")
    workers = master.children() if master else []

    def tell(do: Callable[[psutil.Process], None]) -> None:
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                do(worker)

    def throttle() -> None:
        tell(psutil.Process.suspend)
        time.sleep(_PERIOD_S * (1 - _PART))
        tell(psutil.Process.resume)

    with repeat(throttle, _PERIOD_S * _PART):
        flood(scene, rng)


def write_flood(marker: str) -> list[Request]:
    """Return requests with different sentences: equal ones in a batch would be one row."""
    texts = (f"Room {n}, {marker}." for n in range(_SENTENCES))
    return [Request(write_body(text), "/translate") for text in texts]


def _ask_at(
    scene: Scene, kind: str, asked: list[Request], arrivals: list[float]
) -> None:
    """Send requests without waiting for answers, and record the outcomes."""
    began = time.monotonic()
    replies = Generator(Target(scene.stack.url, asked), _FLOOD).run(arrivals)
    outcomes = {"200": RIGHT, "timeout": HUNG, "reset": BROKEN, "refused": BROKEN}
    scene.exchanges += [
        Exchange(
            kind,
            began + reply.ended_s - reply.latency_s + reply.lag_s,
            began + reply.ended_s,
            _FLOOD_LIMIT_S,
            outcomes.get(reply.status, PROBLEM),
            int(reply.status) if reply.status.isdecimal() else 0,
            detail=reply.status,
        )
        for reply in replies
    ]


def send_texts(scene: Scene, rng: random.Random) -> None:
    """Send texts that a careless parser reads slowly, several at a time."""
    _send(scene, [draw_text(rng, scene.marker) for _ in range(4)])


def send_junk(scene: Scene, rng: random.Random) -> None:
    _send(scene, [draw_junk(rng, scene.marker) for _ in range(20)])


def _send(scene: Scene, questions: list[Question]) -> None:
    with ThreadPoolExecutor(4) as threads:
        asked = threads.map(
            lambda question: ask(scene.stack.url, question, _HOSTILE_LIMIT_S), questions
        )
        scene.exchanges += asked


def hold_connections(scene: Scene, rng: random.Random) -> None:
    """Open connections that begin a request and do not finish it."""
    with ExitStack() as held:
        for number in range(_CROWD):
            client = held.enter_context(_connect(scene, number))
            client.sendall(draw_beginning(rng, scene.marker))
        time.sleep(1.0)


def leave(scene: Scene, rng: random.Random) -> None:
    """Send large requests and hang up."""
    message = write_message(write_body(f"Good morning {scene.marker}\n" * 500))
    for number in range(_CROWD):
        with _connect(scene, number) as client:
            client.sendall(message)
            time.sleep(rng.uniform(0, 0.05))


def _connect(scene: Scene, number: int) -> socket.socket:
    parts = urlsplit(scene.stack.url)
    address = (parts.hostname or "", parts.port or 0)
    source = (name_address(number), 0)
    return socket.create_connection(address, timeout=5, source_address=source)


FAULTS: dict[str, Fault] = {
    **{
        f"kill {name}": partial(kill, name=name)
        # `broken map` kills gateway workers.
        for name in (
            *_NGINX,
            "gateway master",
            "documents",
            "registrar",
            "java",
            "model worker",
        )
    },
    "kill readers": kill_readers,
    **{f"stop {name}": partial(stop, name=name) for name in _STOPS_S},
    "reload": reload,
    "broken map": break_map,
    "busy neighbours": flood_beside_neighbours,
    "throttled gateway": flood_throttled,
    "hostile texts": send_texts,
    "junk": send_junk,
    "held connections": hold_connections,
    "leaving clients": leave,
}
