"""`python -m deploy.container`: run one program of the stack per container. The containers of
a stack share the run directory, which `prepare` fills before they start.
"""

import os
import shlex
import subprocess
import sys
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path

import typer
from supervisor.datatypes import dict_of_key_value_pairs

import catalog
from catalog import CatalogError
from catalog.display import console, make_command
from deploy import launch, programs, stack
from deploy.serving import choose_serving
from deploy.stack import ROOT, Backend, Stack, StackError
from gateway.settings import SettingsError
from handlers.engine.directories import ModelError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
command = make_command(
    app, Path(__file__).with_name("options.yaml"),
    CatalogError, ModelError, SettingsError, StackError, OSError,
)  # fmt: skip

#: The module through which supervisord starts a program: it kills processes left by an earlier
#: start and opens the log file. A container has neither.
_LAUNCHER = "deploy.launch"
_OUTPUT = "/dev/stdout"


@command()
def prepare(
    *,
    run_dir: Path,
    map_path: Path = catalog.MAP,
    model: str = "",
    port_offset: int = 0,
) -> None:
    """Fill the run directory: configuration, the map's copy, and models for TorchServe."""
    is_cluster = os.environ.get("GATEWAY_BACKEND") == "ray"
    backend: Backend | None = "ray" if is_cluster else None
    wanted = Stack(
        run_dir, ROOT / map_path, model or None, port_offset, backend=backend
    )
    launch.confine("prepare")
    wanted.check_writable()
    serving = choose_serving(wanted)
    models = serving.load(wanted.map)
    wanted.write(models.frozen)
    with wanted.writing(), suppress(FileExistsError):
        wanted.log("nginx").symlink_to(_OUTPUT)
    # A cluster's replicas prepare their own models, and its secrets are created elsewhere.
    if not is_cluster:
        serving.prepare(models)
        with wanted.writing():
            serving.write()
    console.print(f"Prepared {wanted.run} for {len(models.models)} models.")


@command()
def run(name: str, *, run_dir: Path) -> None:
    """Replace this process by a program, as supervisord would start it."""
    prepared = stack.read(run_dir)
    nginx = programs.find(programs.NGINX)
    if prepared is None or nginx is None:
        raise StackError(f"{run_dir} is not prepared: run `prepare` before {name}.")
    launch.confine(name)
    environment = prepared.environment()
    command, folder, more = read_start(name, prepared.render_supervisor(nginx))
    if name == programs.NGINX.name:
        _make_output_openable()
    os.chdir(folder)
    os.execvpe(command[0], command, environment | more)


def read_start(name: str, text: str) -> tuple[list[str], Path, dict[str, str]]:
    """Return a program's command, directory and environment in supervisord's file. Raises
    KeyError if the file has no such program."""
    parser = ConfigParser()
    parser.read_string(text)
    section = parser[f"program:{name}"]
    command = shlex.split(section["command"])
    environment = dict_of_key_value_pairs(section.get("environment", ""))
    begin = command.index(_LAUNCHER) + 2
    return command[begin:], Path(section["directory"]), environment


def _make_output_openable() -> None:
    """Let nginx open its log, whose name is that of standard output. Some runtimes deny a user
    that; a pipe created by the user can be opened."""
    try:
        os.close(os.open(_OUTPUT, os.O_WRONLY | os.O_APPEND))
    except OSError:
        copy = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        assert copy.stdin
        os.dup2(copy.stdin.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    app()
