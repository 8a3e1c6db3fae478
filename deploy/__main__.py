"""`python -m deploy`: start the stack, look at it, reload it, stop it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer
import urllib3
from rich.console import Console

from deploy import configuration, programs, prometheus, stack, systemd, tls
from deploy.programs import NGINX, PROMETHEUS, Program
from deploy.stack import ROOT, Stack, StackError
from deploy.supervision import PROGRAMS, Supervision, end
from handlers.engine.directories import ModelError
from torchserve_backend import __main__ as backend
from torchserve_backend import catalog, registrar
from torchserve_backend.catalog import Catalog, CatalogError
from torchserve_backend.management import Management, ManagementError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
console = Console()

_START_S = 90
_LOG_LINES = 15
#: All tasks and a worker per language need more than 4 GB together.
_MORE_TASKS = (
    "Captions for videos, labels and boxes for images as well: "
    "make up CONFIG=torchserve_backend/all_tasks.json"
)

RunDir = Annotated[
    Path,
    typer.Option(
        "--run-dir", envvar="BABELGATE_RUN_DIR", help="Logs, sockets, archives."
    ),
]

Model = Annotated[
    str, typer.Option(help="A model directory or hub name, instead of the map's.")
]
Map = Annotated[Path, typer.Option("--map", help="The map to use.")]
PortOffset = Annotated[
    int, typer.Option(help="Added to every port, for a second stack.")
]
Tls = Annotated[
    str, typer.Option("--tls", help="certificate.pem,key.pem: TLS on port 7777.")
]


@app.command()
def up(
    model: Model = "",
    map_path: Map = catalog.MAP,
    run_dir: RunDir = ROOT / "run",
    port_offset: PortOffset = 0,
    tls_files: Tls = "",
    timeout_s: Annotated[
        float, typer.Option(help="Longest wait for the models to be ready.")
    ] = 600,
) -> None:
    """Start what is not running yet, wait until every model is ready, show a translation."""
    wanted = Stack(run_dir.resolve(), map_path.resolve(), model or None, port_offset)
    with _errors(show_log=wanted.log("torchserve")):
        nginx = _ensure(NGINX)
        wanted.check_writable()
        wanted = replace(wanted, tls=tls.read_option(tls_files))
        running = _find_running(wanted)
        if running:
            wanted = replace(
                wanted,
                model=wanted.model or running.model,
                port_offset=running.port_offset,
                tls=wanted.tls or running.tls,
            )
        models = backend.load_catalog(wanted.map, wanted.model)
        with console.status("Preparing the models …"):
            desired = backend.list_desired(models, are_read=True)
        is_new = _make_way(wanted, running)
        with _undone_by_interrupt(wanted) if is_new else nullcontext():
            wanted.write(models.frozen)
            with wanted.writing():
                backend.write_archives(desired, wanted.store)
            _start(wanted, nginx)
            management = Management(wanted.management_url, wanted.key_file)
            _wait_for_torchserve(wanted, management)
            _mend(desired, management)
            backend.show_progress(desired, management, timeout_s)
            if models.languages:
                _show_translation(wanted, models)
        if not models.tasks:
            console.print(_MORE_TASKS, highlight=False, markup=False, soft_wrap=True)


@app.command()
def prepare(
    for_tests: Annotated[
        bool, typer.Option("--for-tests", help="What the tests need, as well.")
    ] = False,
) -> None:
    """Install nginx where it is missing; `up` does so too."""
    with _errors():
        for program in programs.FOR_TESTS if for_tests else (NGINX,):
            console.print(f"{program.name}: {_ensure(program)}")


@app.command()
def unit(
    model: Model = "",
    map_path: Map = catalog.MAP,
    run_dir: RunDir = ROOT / "run",
    port_offset: PortOffset = 0,
    tls_files: Tls = "",
    user: Annotated[
        str, typer.Option(help="For a system service: whom it runs as.")
    ] = "",
) -> None:
    """Print a systemd unit that starts and watches this clone's stack."""
    wanted = Stack(run_dir.resolve(), map_path.resolve(), model or None, port_offset)
    with _errors():
        wanted = replace(wanted, tls=tls.read_option(tls_files))
    typer.echo(systemd.render_unit(wanted, user), nl=False)


@app.command()
def down(run_dir: RunDir = ROOT / "run") -> None:
    """Stop every process of the stack; leave nothing behind but logs."""
    run = run_dir.resolve()
    stopped = stack.read(run) or Stack(run, catalog.MAP)
    with _errors(), console.status("Stopping …"):
        was_running = end(stopped)
    console.print("Stopped." if was_running else "The stack is not running.")


@app.command()
def status(run_dir: RunDir = ROOT / "run") -> None:
    """Show every process, language and task; exit 1 where something is not ready."""
    running = _find(run_dir)
    with _errors():
        states = Supervision(running).states()
        console.print("  ".join(f"{name} {states[name]}" for name in PROGRAMS))
        models = backend.load_catalog(running.frozen_map, running.model)
        is_ready = backend.print_status(
            models, Management(running.management_url, running.key_file)
        )
    are_up = set(states.values()) <= {"RUNNING", "STARTING"}
    raise typer.Exit(0 if is_ready and are_up else 1)


@app.command()
def reload(run_dir: RunDir = ROOT / "run") -> None:
    """Take over edited nginx and gateway configuration without dropping a request."""
    running = _find(run_dir)
    with _errors():
        configuration.check_edited(running, _ensure(NGINX), running.frozen_map)
        running.write_configuration()
        supervision = Supervision(running)
        for program in ("gateway", "nginx"):
            supervision.signal(program, "HUP")
    console.print("Reloaded nginx and the gateway.")


@app.command()
def restart(run_dir: RunDir = ROOT / "run") -> None:
    """Start TorchServe anew, with its edited configuration; requests wait or get a 503."""
    running = _find(run_dir)
    with _errors():
        running.write_configuration()
        Supervision(running).restart("torchserve")
    console.print("TorchServe is starting; `make status` shows its models.")


@app.command()
def monitor(
    run_dir: RunDir = ROOT / "run",
    port: Annotated[
        int, typer.Option(help="Where Prometheus listens; the stack's offset is added.")
    ] = 9090,
) -> None:
    """Run Prometheus beside the stack, until Ctrl-C."""
    running = _find(run_dir)
    port += running.port_offset
    with _errors():
        command = prometheus.make_command(running, _ensure(PROMETHEUS), port)
    url = f"http://127.0.0.1:{port}"
    console.print(f"Prometheus is at {url}; Ctrl-C ends it.", highlight=False)
    # Prometheus takes this process over, so that no signal can leave it running.
    os.execv(command[0], command)


def _ensure(program: Program) -> Path:
    found = programs.find(program)
    if found is None:
        console.print(f"Installing {program.package} …")
        found = programs.install(program)
    return found


def _find_running(wanted: Stack) -> Stack | None:
    """What runs in the same run directory. Where its state cannot be read any more it is
    something else than what is wanted, whatever that is."""
    if not Supervision(wanted).is_running():
        return None
    return stack.read(wanted.run) or replace(wanted, map=Path())


def _make_way(wanted: Stack, running: Stack | None) -> bool:
    """Whether a stack is to be started: ends whatever else runs in the run directory."""
    if running == wanted:
        console.print("The stack is running already.")
        configuration.check_edited(wanted, _ensure(NGINX), wanted.map)
        return False
    if running:
        console.print(
            "The stack is running with another map, model or certificate: starting it anew."
        )
    end(wanted)
    wanted.check_ports()
    return True


@contextmanager
def _undone_by_interrupt(started: Stack) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        console.print("\nInterrupted: stopping what has been started …")
        end(started)
        raise typer.Exit(130) from None


def _start(wanted: Stack, nginx: Path) -> None:
    supervision = Supervision(wanted)
    if not supervision.is_running():
        with wanted.writing():
            wanted.key_file.unlink(missing_ok=True)
        supervision.start(wanted.environment(programs.find_java_home(), nginx))
        console.print("Started TorchServe, Gunicorn and nginx.")
        return
    started = supervision.start_stopped()
    if started:
        console.print(f"Started what was not running: {', '.join(started)}.")
    if "registrar" not in started:
        supervision.restart("registrar")
    if "gateway" not in started:
        supervision.signal("gateway", "HUP")


def _wait_for_torchserve(wanted: Stack, management: Management) -> None:
    supervision = Supervision(wanted)
    with console.status("Waiting for TorchServe …"):
        for _ in _attempts():
            with suppress(ManagementError):
                management.names()
                return
            if supervision.states()["torchserve"] == "FATAL":
                break
    raise TimeoutError("TorchServe did not start.")


def _mend(desired: list[registrar.Desired], management: Management) -> None:
    """Brings TorchServe to what the map says; names the models that go."""
    actions = registrar.plan_change(desired, management)
    gone = [action for action in actions if action.desired is None]
    kept = len(desired) + len(gone) - len(actions)
    said = f"{kept} of {len(desired)} models already registered"
    console.print(said, *map(str, gone), sep="\n", markup=False)
    registrar.apply(actions, management)


def _show_translation(wanted: Stack, models: Catalog) -> None:
    """The curl command that a newcomer may repeat, with the answer it gets."""
    body = json.dumps(_choose_sample(models.languages), ensure_ascii=False)
    for _ in _attempts():
        try:
            response = tls.post(wanted, body.encode())
        except urllib3.exceptions.HTTPError:
            continue
        if response.status == HTTPStatus.OK:
            command = f"{tls.write_curl(wanted)} -d '{body}'"
            for line, style in (
                (command, ""),
                (response.data.decode().strip(), "green"),
            ):
                console.print(
                    line, style=style, highlight=False, markup=False, soft_wrap=True
                )
            return
    raise StackError(f"{wanted.url} does not translate.")


def _choose_sample(languages: Sequence[str]) -> dict[str, str]:
    """A greeting, into French where that is served."""
    target = next((lang for lang in ("fr", *languages) if lang in languages), "")
    if target == "en":
        return {"src_lang": "fr", "src_text": "Bonjour", "tgt_lang": "en"}
    return {"src_lang": "en", "src_text": "Hello, how are you?", "tgt_lang": target}


def _find(run_dir: Path) -> Stack:
    run = run_dir.resolve()
    with _errors():
        if not Supervision(Stack(run, catalog.MAP)).is_running():
            raise StackError("The stack is not running; `make up` starts it.")
        running = stack.read(run)
        if running is None:
            raise StackError(
                f"What runs in {run} is not known any more: `make up` starts it anew."
            )
    return running


def _attempts() -> Iterator[None]:
    give_up_at = time.monotonic() + _START_S
    while time.monotonic() < give_up_at:
        yield
        time.sleep(0.3)


@contextmanager
def _errors(show_log: Path | None = None) -> Iterator[None]:
    """Shows what went wrong and, where a program did not start, the last lines of its log."""
    try:
        yield
    except (
        CatalogError,
        ModelError,
        ManagementError,
        StackError,
        TimeoutError,
    ) as error:
        console.print(str(error), style="red", highlight=False, markup=False)
        is_late = isinstance(error, ManagementError | TimeoutError)
        if show_log and is_late and show_log.exists():
            lines = show_log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
            console.print(
                f"\nThe last lines of {show_log}:", *lines, sep="\n", markup=False
            )
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
