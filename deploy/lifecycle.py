"""Starts a stack: decides which programs to keep, end and start, and awaits a translation."""

import json
import os
import subprocess
import symtable
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import IO

import urllib3

import catalog
from catalog import Catalog, bundle, checkpoint
from catalog.display import console
from contract import variables
from contract.validation import suggest
from deploy import programs, stack, tls
from deploy.programs import NGINX, Program
from deploy.serving import attempts, choose_serving
from deploy.stack import DOOR, ROOT, UNSAID, Stack, StackError
from deploy.supervision import Supervision, end
from gateway.settings import name_variable, read_settings
from ray_backend import nodes
from ray_backend.deployment import DashboardError
from torchserve_backend.management import ManagementError

#: The other tasks would need nearly as much memory again as translation.
_MORE_TASKS = (
    "For video captions, and labels and boxes for images, as well: "
    "make up CONFIG=torchserve_backend/all_tasks.json"
)
_OPEN = (
    "Anyone who reaches port {port} can use it; to require keys: "
    "BABELGATE_KEYS=required make up (docs/keys.md)"
)
_KEYS = "Clients need a key: .venv/bin/python -m gateway keys add --name NAME (docs/keys.md)"
#: The texts of the shown translation, by their language.
_GREETINGS = {"en": "Hello, how are you?", "fr": "Bonjour"}
_LOG_LINES = 15
_GUNICORN = "gateway/gunicorn.conf.py"
_PREFIXES = ("BABELGATE_", "HF_", "OTEL_", "CUDA_VISIBLE_DEVICES", "WEB_CONCURRENCY")
#: `up` sets these itself or has an option for them, or they belong to the caller.
_OTHERS = {
    *(variable.name for variable in variables.INTERNAL),
    variables.MAP.name,
    variables.MODEL.name,
    variables.CLIENT_KEY.name,
    variables.RUN_DIR.name,
}


def up(wanted: Stack, *, timeout_s: float, bundled: Path | None = None) -> None:
    """Start the stopped programs, wait for every model, show a translation. `bundled` is a
    bundle of models and, if none is named, of the map. A KeyboardInterrupt ends all programs
    that it started. Raises SettingsError, StackError, CatalogError, ModelError,
    ManagementError, DashboardError, DeploymentError or TimeoutError."""
    with wanted.lock() as lock:
        _up(wanted, lock, timeout_s, bundled)


def _up(wanted: Stack, lock: IO[bytes], timeout_s: float, bundled: Path | None) -> None:
    running = find_running(wanted)
    last = running or stack.read(wanted.run)
    if not last and (state := wanted.run / stack.STATE).exists():
        raise StackError(
            f"{state} is damaged, and with it the options of the last start, such as "
            "required keys: remove it, and give them again."
        )
    said = replace(
        wanted, settings=find_settings(os.environ), version=stack.find_version()
    )
    wanted = complete(said, last)
    apply_settings(wanted.settings or {})
    if bundled:
        with console.status(f"Unpacking {bundled} …"):
            map_path = bundle.unpack(bundled, checkpoint.default_cache())
        wanted = wanted if said.map != UNSAID else replace(wanted, map=map_path)
    _check_options(wanted)
    nginx = ensure(NGINX)[0] if wanted.is_door else Path()
    serving = choose_serving(wanted)
    models = serving.load(wanted.map)
    with console.status("Preparing the models …"):
        serving.prepare(models)
    for line in describe_start(last, said, wanted):
        console.print(line)
    if wanted.is_door:
        # Gunicorn would load the gateway beside a running one of another version.
        check_edited(wanted, nginx, wanted.map if running == wanted else None)
    is_new = make_way(wanted, running)
    try:
        wanted.write(models.frozen)
        with wanted.writing():
            serving.write()
        start(wanted, nginx)
        lock.close()  # another `up` may start what stops from now on
        serving.bring_up(timeout_s=timeout_s)
        if wanted.is_door:
            show_translation(wanted, models)
    except KeyboardInterrupt:
        if is_new:
            console.print("\nInterrupted: stopping what was started …")
            end(wanted)
        raise
    except (ManagementError, DashboardError, TimeoutError) as error:
        _note_log(error, wanted.log(wanted.server))
        raise
    if wanted.is_door and not models.tasks:
        console.print(_MORE_TASKS)


def _check_options(wanted: Stack) -> None:
    """Raise SettingsError or StackError if the stack cannot run with these options."""
    if wanted.is_door:
        read_settings()  # raises faults here: `up` does not show the gateway's log
        check_names((ROOT / _GUNICORN).read_text("utf-8"))
    wanted.check_writable()
    tls.read_option(wanted.tls or "")  # also the files named at an earlier start
    if wanted.address and wanted.server != "ray":
        raise StackError("--address is for a cluster: add --backend ray.")
    if wanted.head == wanted.node.find(nodes.PORTS.gcs):
        raise StackError("--head is this machine: `make join` is for the other ones.")


def _note_log(error: Exception, log: Path) -> None:
    """Add the last lines of the log to the error of a program that did not start."""
    if log.exists():
        lines = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        error.add_note("\n".join([f"\nThe last lines of {log}:", *lines]))


def check(wanted: Stack) -> None:
    """Show the models of the map, and what `up` would change if the stack runs on the same
    backend. Raises the errors of `up`."""
    running = find_running(wanted)
    said = replace(wanted, settings=find_settings(os.environ))
    wanted = complete(said, running or stack.read(wanted.run))
    apply_settings(wanted.settings or {})
    serving = choose_serving(wanted)
    models = serving.load(wanted.map)
    serving.show_map(models)
    if running and running.server == wanted.server:
        serving.prepare(models)
        serving.show_changes()


def ensure(*wanted: Program) -> list[Path]:
    """Return the programs' files, after installing missing ones. Raises StackError."""
    missing = [program for program in wanted if programs.find(program) is None]
    if missing:
        packages = ", ".join(program.package for program in missing)
        console.print(f"Installing {packages} …")
        programs.install(*missing)
    return [file for program in wanted if (file := programs.find(program))]


def find_running(wanted: Stack) -> Stack | None:
    """Return the stack that runs in the same run directory, without a map if its state is
    unreadable. Settings that are not in the state are read from supervisord's environment."""
    supervision = Supervision(wanted)
    if not supervision.is_running():
        return None
    found = stack.read(wanted.run) or replace(wanted, map=UNSAID, settings=None)
    if found.settings is not None:
        return found
    given = find_settings(supervision.read_environment())
    # Ray's addresses may have been computed rather than set.
    said = {name: given[name] for name in given if "_RAY_" not in name}
    return replace(found, settings=said)


def find(run: Path) -> Stack:
    """Return the stack that runs in a run directory, and apply its settings to this process.
    Raises StackError if there is none."""
    running = find_running(Stack(run, UNSAID))
    if running is None:
        raise StackError("The stack is not running; `make up` starts it.")
    if running.map == UNSAID:
        raise StackError(
            f"The state of the stack in {run} is lost: `make up` restarts it."
        )
    apply_settings(running.settings or {})
    return running


def complete(wanted: Stack, last: Stack | None) -> Stack:
    """Return the wanted stack, with the missing options as at the last start."""
    last = last or Stack(wanted.run, UNSAID)
    maps = (wanted.map, last.map, catalog.MAP)
    if wanted.backend not in (None, last.backend):
        last = replace(last, address=None, head=None, is_door=wanted.is_door)
    return replace(
        wanted,
        map=next(path for path in maps if path != UNSAID),
        model=wanted.model or last.model,
        port_offset=wanted.port_offset or last.port_offset,
        tls=wanted.tls or last.tls,
        backend=wanted.backend or last.backend,
        address=wanted.address or last.address,
        head=wanted.head or last.head,
        is_door=wanted.is_door if wanted.head else last.is_door,
        settings=(last.settings or {}) | (wanted.settings or {}),
    )


def describe_start(last: Stack | None, said: Stack, wanted: Stack) -> list[str]:
    """Return a line of the options changed since the last start, and one of those kept from it
    without being given. Secrets are left out."""
    before, now, given = (list_options(each) for each in (last, wanted, said))
    changed = [
        f"{name}: {show_option(name, before)} → {show_option(name, now)}"
        for name in sorted(before | now)
        if last and before.get(name) != now.get(name)
    ]
    kept = [
        f"{name}={show_option(name, now)}"
        for name in sorted(now.keys() - given)
        if before.get(name) == now[name]
    ]
    lines = {"Changed": changed, "As at the last start": kept}
    return [f"{title}: {', '.join(found)}" for title, found in lines.items() if found]


def list_options(stack: Stack | None) -> dict[str, str]:
    """Return the options of a stack by their names for `make up`."""
    if stack is None:
        return {}
    options = {
        "CONFIG": None if stack.map in (UNSAID, catalog.MAP) else str(stack.map),
        "MODEL": stack.model,
        "TLS": stack.tls,
        "BACKEND": stack.backend,
        "ADDRESS": stack.address,
        "HEAD": stack.head,
        "--port-offset": str(stack.port_offset or ""),
        "the code": stack.version,
    }
    given = {name: value for name, value in options.items() if value}
    return given | (stack.settings or {})


def show_option(name: str, options: Mapping[str, str]) -> str:
    """Return an option's value, unless it may contain a secret, as addresses and tokens do."""
    is_secret = name.startswith(("HF_", "OTEL_")) or name.endswith("_URL")
    return "(not shown)" if is_secret else options.get(name, "unset")


def down(run: Path, *, is_forgotten: bool = False) -> bool:
    """End the stack of a run directory, and return whether it was running. The next start has
    the same options; if `is_forgotten`, only the requirement of keys. Raises StackError."""
    unknown = Stack(run, UNSAID)
    last = find_running(unknown) or stack.read(run)
    was_running = end(last or unknown)
    if last and is_forgotten:
        required = (name_variable("keys"), "required")
        kept = dict([required] if required in (last.settings or {}).items() else [])
        last = replace(unknown, settings=kept, version=last.version)
    if last and last != stack.read(run):
        with last.writing():
            last.remember()
    return was_running


def clear(run: Path) -> None:
    """End what a killed supervisord has left, unless another one runs. Raises StackError."""
    unknown = Stack(run, UNSAID)
    with unknown.lock():
        if not find_running(unknown):
            end(stack.read(run) or unknown)


def make_way(wanted: Stack, running: Stack | None) -> bool:
    """End another stack in the run directory, and return whether one is to be started. Raises
    StackError if it cannot be ended, or if another program uses a port."""
    if running == wanted:
        console.print("The stack is already running.")
        return False
    if running:
        console.print("The stack is running with other options: restarting it.")
        wanted.check_ports(running.ports)
    end(wanted)
    wanted.check_ports()
    return True


def start(wanted: Stack, nginx: Path) -> None:
    """Start supervisord, or the stopped programs. Running ones read the map and nginx's files
    again: an update may bring no other change."""
    supervision = Supervision(wanted)
    if not supervision.is_running():
        with wanted.writing():
            wanted.key_file.unlink(missing_ok=True)
            wanted.metrics.mkdir(mode=0o700, exist_ok=True)  # before another user can
        supervision.start(wanted.environment(), nginx)
        console.print(f"Started {', '.join(wanted.programs)}.")
        return
    started = supervision.start_stopped()
    if started:
        console.print(f"Started what was not running: {', '.join(started)}.")
    if "registrar" not in started:
        supervision.restart("registrar")
    for program in ("gateway", "nginx") if wanted.is_door else ():
        if program not in started:
            supervision.signal(program, "HUP")


def show_translation(wanted: Stack, models: Catalog) -> None:
    """Print a curl command that a newcomer can repeat, its answer, and which clients may use
    the stack. Without languages there is no translation to show."""
    sample = choose_sample(replace(models, reads=checkpoint.find_reads(models)))
    body = json.dumps(sample, ensure_ascii=False)
    served = HTTPStatus.OK if models.languages else HTTPStatus.NOT_FOUND
    for _ in attempts():
        try:
            response = tls.post(wanted, body.encode())
        except urllib3.exceptions.HTTPError:
            continue
        if response.status == HTTPStatus.UNAUTHORIZED:
            console.print(_KEYS)
            return
        if response.status == served:
            if models.languages:
                console.print(f"{tls.write_curl(wanted)} -d '{body}'")
                console.print(response.data.decode().strip(), style="green")
            console.print(_OPEN.format(port=DOOR + wanted.port_offset))
            return
    error = StackError(f"{wanted.url} does not translate.")
    for program in ("gateway", "nginx"):
        _note_log(error, wanted.log(program))
    raise error


def choose_sample(models: Catalog) -> dict[str, str]:
    """Return a request for a greeting, into French if possible; empty without languages."""
    for target in sorted(models.languages, key=lambda code: code != "fr"):
        for source in (*_GREETINGS, *models.list_sources(target)):
            if source != target and models.find_path(source, target):
                text = _GREETINGS.get(source, "OK")
                return {"src_lang": source, "src_text": text, "tgt_lang": target}
    return {}


def reload(running: Stack, nginx: Path) -> None:
    """Apply edited files of nginx and the gateway. Raises StackError if they are wrong, or if
    the stack has neither program."""
    if not running.is_door:
        raise StackError("This machine runs neither nginx nor a gateway.")
    check_version(running)
    check_edited(running, nginx, running.frozen_map)
    check_names((ROOT / _GUNICORN).read_text("utf-8"))
    with running.writing():
        running.write_nginx(running.run / "nginx")
    supervision = Supervision(running)
    for program in ("gateway", "nginx"):
        supervision.signal(program, "HUP")


def restart(running: Stack) -> None:
    """Restart TorchServe with its edited files, or Ray. Raises StackError."""
    check_version(running)
    running.write_torchserve()
    Supervision(running).restart(running.server)


def check_version(running: Stack) -> None:
    """Raise StackError if a program that starts now would run other code than the stack."""
    if running.version != stack.find_version():
        raise StackError(
            "The code has changed since the stack was started: `make up` applies it."
        )


def check_edited(stack: Stack, nginx: Path, map_path: Path | None) -> None:
    """Have nginx and, with a map, Gunicorn check the edited files. Raises StackError."""
    program = Path(sys.executable).with_name("gunicorn")
    copies = stack.run / "nginx" / "edited"
    with stack.writing():
        main = stack.write_nginx(copies)
        with suppress(FileExistsError):
            (copies / "conf.d").symlink_to("../conf.d")  # as includes follow `main`
    checks = {
        "nginx/nginx.conf": [
            str(nginx), "-t", "-q", "-p", f"{stack.run}/nginx/", "-c", str(main)
        ]
    }  # fmt: skip
    if map_path:
        checks[_GUNICORN] = [
            str(program), "--check-config", "--config", f"{ROOT}/{_GUNICORN}",
            "gateway.app:create_app()",
        ]  # fmt: skip
    environment = stack.environment() | {variables.MAP.name: str(map_path)}
    del environment[variables.PROMETHEUS.name]  # the stack would keep its counters
    for file, command in checks.items():
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment
        )
        if done.returncode != 0:
            said = done.stderr.strip().replace(f"{copies}/", "nginx/")
            raise StackError(f"{file} is invalid, nothing was changed:\n{said}")


def check_names(text: str) -> None:
    """Raise StackError for a name in Gunicorn's file that Gunicorn would ignore."""
    import gunicorn.config  # type: ignore[import-untyped] # refuses an empty WEB_CONCURRENCY

    try:
        table = symtable.symtable(text, _GUNICORN, "exec")
    except SyntaxError as error:
        raise StackError(f"{_GUNICORN} is invalid: {error}") from error
    known = gunicorn.config.make_settings()
    for symbol in table.get_symbols():
        name, is_set = symbol.get_name(), symbol.is_assigned()
        if is_set and not (symbol.is_imported() or name[0] == "_" or name in known):
            raise StackError(
                f"{_GUNICORN} is invalid: {name} is not a Gunicorn setting"
                f"{suggest(name, known) or '.'} Start a name of your own with _."
            )


def find_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in an environment that a stack keeps. Names may be in lower case,
    which the gateway accepts too."""
    given = {name.upper(): value for name, value in environment.items()}
    return {
        name: given[name]
        for name in given.keys() - _OTHERS
        if name.startswith(_PREFIXES)
    }


def apply_settings(settings: Mapping[str, str]) -> None:
    """Set only these settings for this process and its children. Raises StackError."""
    for name in list(os.environ):
        if find_settings({name: ""}):
            del os.environ[name]
    # An empty value is the default; Gunicorn and the hub's library would refuse it.
    others = ("HF_", "WEB_CONCURRENCY")
    given = {n: v for n, v in settings.items() if v or not n.startswith(others)}
    os.environ.update(given)
    workers = given.get("WEB_CONCURRENCY", "1")
    if not (workers.isdecimal() and int(workers)):
        raise StackError(f"WEB_CONCURRENCY: expected 1 or more, found {workers!r}")
