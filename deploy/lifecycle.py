"""Brings a stack up: decides what is kept, ended and started, and waits until it translates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import urllib3
from rich.console import Console

from deploy import configuration, programs, stack, tls
from deploy.cluster import Cluster
from deploy.polling import attempts
from deploy.programs import NGINX, Program
from deploy.stack import DOOR, Stack, StackError
from deploy.supervision import Supervision, end
from deploy.torchserve import TorchServe
from gateway.settings import read_settings
from torchserve_backend import catalog
from torchserve_backend.catalog import Catalog

#: The other tasks would take nearly as much memory again as translation.
_MORE_TASKS = (
    "Captions for videos, labels and boxes for images as well: "
    "make up CONFIG=torchserve_backend/all_tasks.json"
)
_OPEN = (
    "Whoever reaches port {port} may use it; to require keys: "
    "make down && BABELGATE_KEYS=required make up (docs/keys.md)"
)
_KEYS = "Clients need a key: .venv/bin/python -m gateway keys add --name NAME (docs/keys.md)"


class Serving(Protocol):
    """The models' part of a stack. Each step raises what `up` says."""

    def load(self) -> Catalog:
        """The models that the map asks for."""

    def prepare(self, models: Catalog) -> None:
        """Fetches and converts the weights, before anything is changed."""

    def write(self) -> None:
        """Writes what the programs read."""

    def bring_up(self, *, timeout_s: float) -> None:
        """Has what has been started run what the map says, and waits until it does."""

    def show(self) -> bool:
        """Shows how the models are; whether all are ready."""


def up(wanted: Stack, console: Console, *, timeout_s: float) -> None:
    """Starts what is not running yet, waits for every model, shows a translation. After a
    KeyboardInterrupt nothing that it started is left. Raises SettingsError, StackError,
    CatalogError, ModelError, ManagementError or TimeoutError."""
    if wanted.is_door:
        read_settings()  # the gateway's log would not repeat what is wrong
    wanted.check_writable()
    supervision = Supervision(wanted)
    running = find_running(wanted, supervision)
    wanted = complete(wanted, running)
    if wanted.address and wanted.server != "ray":
        raise StackError("--address is for a cluster: say --backend ray as well.")
    nginx = ensure(console, NGINX)[0] if wanted.is_door else Path()
    serving = choose_serving(wanted, console)
    models = serving.load()
    with console.status("Preparing the models …"):
        serving.prepare(models)
    is_new = make_way(wanted, running, console)
    if not is_new and wanted.is_door:
        configuration.check_edited(wanted, nginx, wanted.map)
    with _undone_by_interrupt(wanted, console) if is_new else nullcontext():
        wanted.write(models.frozen)
        with wanted.writing():
            serving.write()
        start(wanted, supervision, nginx, console)
        serving.bring_up(timeout_s=timeout_s)
        if wanted.is_door:
            show_translation(wanted, models, console)
    if wanted.is_door and not models.tasks:
        console.print(_MORE_TASKS)


def choose_serving(stack: Stack, console: Console) -> Serving:
    """Return what the models of a stack run on. Raises StackError if it is missing."""
    if stack.server == "ray":
        if find_spec("ray") is None:
            raise StackError("Ray is missing: `make .venv/ready-ray` installs it.")
        return Cluster(stack, console)
    return TorchServe(stack, console)


def ensure(console: Console, *wanted: Program) -> list[Path]:
    """Return the programs' files; install what is missing. Raises StackError."""
    missing = [program for program in wanted if programs.find(program) is None]
    if missing:
        packages = ", ".join(program.package for program in missing)
        console.print(f"Installing {packages} …")
        programs.install(*missing)
    return [file for program in wanted if (file := programs.find(program))]


def find_running(wanted: Stack, supervision: Supervision) -> Stack | None:
    """The stack in the same run directory; another one if its state cannot be read."""
    if not supervision.is_running():
        return None
    return stack.read(wanted.run) or replace(wanted, map=Path())


def find(run: Path) -> Stack:
    """The stack that runs in a run directory. Raises StackError if there is none."""
    if not Supervision(Stack(run, catalog.MAP)).is_running():
        raise StackError("The stack is not running; `make up` starts it.")
    running = stack.read(run)
    if running is None:
        raise StackError(
            f"What runs in {run} is not known any more: `make up` starts it anew."
        )
    return running


def complete(wanted: Stack, running: Stack | None) -> Stack:
    """What is wanted; options that were not given stay as they are in the running stack."""
    if running is None:
        return wanted
    kept = replace(
        wanted,
        model=wanted.model or running.model,
        port_offset=running.port_offset,
        tls=wanted.tls or running.tls,
        backend=wanted.backend or running.backend,
    )
    if kept.backend != running.backend:
        return kept
    return replace(
        kept,
        address=wanted.address or running.address,
        head=wanted.head or running.head,
        is_door=wanted.is_door if wanted.head else running.is_door,
    )


def make_way(wanted: Stack, running: Stack | None, console: Console) -> bool:
    """Ends another stack in the run directory; returns whether one is to be started.
    Raises StackError if it cannot be ended, or if another program has a port."""
    if running == wanted:
        console.print("The stack is running already.")
        return False
    if running:
        console.print("The stack is running with other options: starting it anew.")
    end(wanted)
    wanted.check_ports()
    return True


def start(
    wanted: Stack, supervision: Supervision, nginx: Path, console: Console
) -> None:
    """Starts supervisord, or the programs that have stopped. Running ones read the new map."""
    if not supervision.is_running():
        with wanted.writing():
            wanted.key_file.unlink(missing_ok=True)
        supervision.start(wanted.environment(programs.find_java_home(), nginx))
        console.print(f"Started {', '.join(wanted.programs)}.")
        return
    started = supervision.start_stopped()
    if started:
        console.print(f"Started what was not running: {', '.join(started)}.")
    if "registrar" not in started:
        supervision.restart("registrar")
    if wanted.is_door and "gateway" not in started:
        supervision.signal("gateway", "HUP")


def show_translation(wanted: Stack, models: Catalog, console: Console) -> None:
    """The curl command that a newcomer may repeat, with the answer it gets; and who may use
    the stack. Without languages there is no translation to show."""
    sample = choose_sample(models.languages) if models.languages else {}
    body = json.dumps(sample, ensure_ascii=False)
    served = HTTPStatus.OK if models.languages else HTTPStatus.NOT_FOUND
    for response in _list_answers(wanted, body.encode()):
        if response.status == HTTPStatus.UNAUTHORIZED:
            console.print(_KEYS)
            return
        if response.status == served:
            if models.languages:
                console.print(f"{tls.write_curl(wanted)} -d '{body}'")
                console.print(response.data.decode().strip(), style="green")
            console.print(_OPEN.format(port=DOOR + wanted.port_offset))
            return
    raise StackError(f"{wanted.url} does not translate.")


def _list_answers(wanted: Stack, body: bytes) -> Iterator[urllib3.BaseHTTPResponse]:
    """What the door answers, each time that it does."""
    for _ in attempts():
        with suppress(urllib3.exceptions.HTTPError):
            yield tls.post(wanted, body)


def choose_sample(languages: Sequence[str]) -> dict[str, str]:
    """A greeting, into French where that is served."""
    target = "fr" if "fr" in languages else languages[0]
    if target == "en":
        return {"src_lang": "fr", "src_text": "Bonjour", "tgt_lang": "en"}
    return {"src_lang": "en", "src_text": "Hello, how are you?", "tgt_lang": target}


def reload(running: Stack, nginx: Path) -> None:
    """Takes over edited files of nginx and the gateway. Raises StackError if they are wrong, or
    if the stack has neither."""
    if not running.is_door:
        raise StackError("This machine has no nginx and no gateway of its own.")
    configuration.check_edited(running, nginx, running.frozen_map)
    running.write_configuration()
    supervision = Supervision(running)
    for program in ("gateway", "nginx"):
        supervision.signal(program, "HUP")


def restart(running: Stack) -> None:
    """Starts TorchServe anew, with its edited files, or Ray. Raises StackError."""
    running.write_configuration()
    Supervision(running).restart(running.server)


@contextmanager
def _undone_by_interrupt(started: Stack, console: Console) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        console.print("\nInterrupted: stopping what has been started …")
        end(started)
        raise
