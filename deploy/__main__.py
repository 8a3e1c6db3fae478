"""`python -m deploy`: start the stack, inspect it, reload it, stop it."""

import os
from pathlib import Path

import typer

import catalog
from catalog import CatalogError
from catalog.display import console, make_command
from contract import variables
from deploy import (
    images,
    lifecycle,
    manifests,
    monitoring,
    programs,
    reference,
    serving,
    systemd,
    tls,
)
from deploy.programs import BUILDAH, MMDEBSTRAP, NGINX, PROMETHEUS
from deploy.stack import ROOT, UNSAID, Backend, Stack, StackError
from deploy.supervision import Supervision
from gateway.settings import SettingsError
from handlers.engine.directories import ModelError
from ray_backend import nodes
from ray_backend.deployment import DashboardError, DeploymentError
from torchserve_backend.management import ManagementError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

RUN = ROOT / variables.RUN_DIR.default

command = make_command(
    app, Path(__file__).with_name("options.yaml"),
    nodes.AddressError, CatalogError, ModelError, SettingsError, StackError,
    ManagementError, DashboardError, DeploymentError, OSError, KeyboardInterrupt,
    OverflowError,  # a port above 65535
)  # fmt: skip


@command()
def up(
    *,
    model: str = "",
    map_path: Path | None = None,
    run_dir: Path = RUN,
    port_offset: int = 0,
    tls_files: str = "",
    backend: Backend | None = None,
    address: str = "",
    bundle: Path | None = None,
    timeout_s: float = 600,
) -> None:
    """Start the stack's stopped programs, wait for every model, show a translation."""
    wanted = Stack(
        run_dir,
        map_path or UNSAID,
        model or None,
        port_offset,
        tls.read_option(tls_files),
        backend,
        address=nodes.read_address(address) if address else None,
    )
    lifecycle.up(wanted, timeout_s=timeout_s, bundled=bundle)


@command()
def join(
    *,
    head: str,
    address: str = "",
    model: str = "",
    map_path: Path | None = None,
    run_dir: Path = RUN,
    port_offset: int = 0,
    is_door: bool = False,
    timeout_s: float = 600,
) -> None:
    """Add this machine to a cluster that `up --backend ray` has started on another one. A
    gateway needs the head's map and model."""
    head = nodes.read_head(head)
    wanted = Stack(
        run_dir,
        map_path or UNSAID,
        model or None,
        port_offset,
        None,
        "ray",
        address=nodes.read_address(address) if address else nodes.find_address(head),
        head=head,
        is_door=is_door,
    )
    lifecycle.up(wanted, timeout_s=timeout_s)


@command()
def check(
    *,
    model: str = "",
    map_path: Path | None = None,
    run_dir: Path = RUN,
    backend: Backend | None = None,
) -> None:
    """Show which model runs where, and what `up` would change in a running stack; exit 1 if
    the map is wrong."""
    lifecycle.check(Stack(run_dir, map_path or UNSAID, model or None, backend=backend))


@command()
def prepare(*, for_tests: bool = False) -> None:
    """Install nginx if it is missing, as `up` does too."""
    needed = programs.FOR_TESTS if for_tests else (NGINX,)
    more = programs.FOR_SOME_TESTS if for_tests else ()
    try:
        found = lifecycle.ensure(*needed, *more)
    except StackError as error:
        found = lifecycle.ensure(*needed)
        console.print(f"{error}\nTests that need it are skipped.", style="yellow")
    console.print(f"Installed: {', '.join(file.name for file in found)}")


@command()
def unit(
    *,
    model: str = "",
    map_path: Path | None = None,
    run_dir: Path = RUN,
    port_offset: int = 0,
    tls_files: str = "",
    backend: Backend | None = None,
    address: str = "",
    head: str = "",
    is_door: bool = False,
    user: str = "",
) -> None:
    """Print a systemd unit that starts and watches this clone's stack."""
    wanted = Stack(
        run_dir,
        map_path or UNSAID,
        model or None,
        port_offset,
        tls.read_option(tls_files),
        "ray" if head else backend,
        address=nodes.read_address(address) if address else None,
        head=nodes.read_head(head) if head else None,
        is_door=is_door or not head,
    )
    typer.echo(systemd.render_unit(wanted, user), nl=False)


@command()
def down(
    *, run_dir: Path = RUN, is_forgotten: bool = False, pid: str | None = None
) -> None:
    """Stop every process of the stack. The next `up` starts it with the same options."""
    if pid == "":
        lifecycle.clear(run_dir)
        return
    with console.status("Stopping …"):
        was_running = lifecycle.down(run_dir, is_forgotten=is_forgotten)
    console.print("Stopped." if was_running else "The stack is not running.")


@command()
def status(*, run_dir: Path = RUN) -> None:
    """Show every process, language and task; exit 1 if something is not ready."""
    running = lifecycle.find(run_dir)
    states = Supervision(running).states()
    # In its first ten seconds a running program is STARTING; one that has failed is in BACKOFF.
    shown = (f"{n} {s.replace('STARTING', 'RUNNING')}" for n, s in states.items())
    console.print("  ".join(shown))
    is_ready = serving.choose_serving(running).show()
    are_up = set(states.values()) <= {"RUNNING", "STARTING"}
    raise typer.Exit(0 if is_ready and are_up else 1)


@command()
def reload(*, run_dir: Path = RUN) -> None:
    """Apply edited nginx and gateway configuration without dropping a request."""
    lifecycle.reload(lifecycle.find(run_dir), *lifecycle.ensure(NGINX))
    console.print("Reloaded nginx and the gateway.")


@command()
def restart(*, run_dir: Path = RUN) -> None:
    """Restart TorchServe with its edited configuration; requests wait or get a 503. With
    Ray: this machine's part of the cluster."""
    lifecycle.restart(lifecycle.find(run_dir))
    console.print("The models are starting; `make status` shows them.")


@command()
def monitor(*, run_dir: Path = RUN, port: int = 9090) -> None:
    """Run Prometheus next to the stack, until Ctrl-C."""
    running = lifecycle.find(run_dir)
    port += running.port_offset
    (program,) = lifecycle.ensure(PROMETHEUS)
    command = monitoring.make_command(running, program, port)
    console.print(f"Prometheus is at http://127.0.0.1:{port}; Ctrl-C ends it.")
    # Prometheus replaces this process, so that no signal can leave it running.
    os.execv(command[0], command)


@command()
def image(*, fresh: bool = False) -> None:
    """Build the container image with buildah."""
    buildah, mmdebstrap = lifecycle.ensure(BUILDAH, MMDEBSTRAP)
    name = images.build(buildah, mmdebstrap, is_fresh=fresh)
    console.print(f"{name}: {images.list_sizes(buildah)[0]}")


@command("manifests")
def write_manifests(
    overlay: Path, *, key_file: Path, map_path: Path | None = None, gpus: bool = False
) -> None:
    """Write the files of a Kubernetes overlay that depend on the map."""
    manifests.write(overlay, map_path or catalog.MAP, key_file, has_gpus=gpus)
    console.print(f"Wrote {manifests.MAP} and {manifests.SERVE} in {overlay}.")


@command()
def settings() -> None:
    """Write the tables of docs/configuration.md from the declarations of the settings."""
    reference.PAGE.write_text(reference.render(), "utf-8")
    console.print(f"Wrote {reference.PAGE}: {len(reference.list_settings())} settings.")


if __name__ == "__main__":
    app()
