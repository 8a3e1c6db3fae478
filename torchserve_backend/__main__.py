"""`python -m torchserve_backend`: check the map, write archives, register models, show
their state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from contract.languages import LANGUAGES
from handlers.engine.directories import ModelError
from torchserve_backend import archiver, catalog, checkpoint, registrar
from torchserve_backend.catalog import Catalog, CatalogError, Model
from torchserve_backend.management import DEFAULT_URL, Management, ManagementError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
#: What is shown holds paths, JSON and TorchServe's words: none of it is rich's markup, and
#: a line that is broken at the terminal's edge cannot be copied.
console = Console(markup=False, highlight=False, soft_wrap=True)

STORE = Path("run/torchserve/store")
KEY_FILE = Path("run/torchserve/key_file.json")

Map = Annotated[
    Path, typer.Option("--map", envvar="BABELGATE_MAP", help="The map to read.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", envvar="BABELGATE_MODEL", help="Use this model instead of the map's."
    ),
]
Store = Annotated[
    Path, typer.Option(envvar="BABELGATE_STORE", help="TorchServe's model store.")
]
Url = Annotated[
    str,
    typer.Option(
        envvar="BABELGATE_MANAGEMENT_URL", help="TorchServe's management API."
    ),
]
KeyFile = Annotated[
    Path,
    typer.Option(
        envvar="BABELGATE_KEY_FILE", help="The key file that TorchServe wrote."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done and do nothing.")
]


@app.command()
def check(map_path: Map = catalog.MAP, model: ModelName = None) -> None:
    """Read the map and show which model runs where; exit 1 where it is wrong."""
    with _errors():
        models = load_catalog(map_path, model)
    table = Table(
        *("serves", "device", "engine", "precision"),
        *("workers", "batch", "delay ms", "queue"),
    )
    for entry in models.models:
        s = entry.settings
        table.add_row(
            *(" ".join(entry.serves), entry.device, s.engine, entry.compute_type),
            *map(str, (entry.workers, s.batch_size, s.max_batch_delay, s.queue_size)),
        )
    console.print(table, soft_wrap=False)


@app.command()
def archive(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    store: Store = STORE,
    dry_run: DryRun = False,
) -> None:
    """Fetch and convert the model, and write one archive per model into the store."""
    with _errors():
        models = load_catalog(map_path, model)
        if dry_run:
            for named in map(archiver.archive_name, models.models):
                console.print(f"would write {store / named}")
            return
        desired = list_desired(models, are_read=True)
        write_archives(desired, store)
        for entry in desired:
            console.print(f"{store / entry.archive} {entry.version}")


@app.command()
def register(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    url: Url = DEFAULT_URL,
    key_file: KeyFile = KEY_FILE,
    dry_run: DryRun = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and heal what is missing or dead.")
    ] = False,
    every_s: Annotated[
        float, typer.Option(help="With --watch: seconds between looks.")
    ] = 3,
    patience_s: Annotated[
        float,
        typer.Option(
            help="With --watch: seconds without a worker before a revival; a start must "
            "not take longer."
        ),
    ] = 900,
    timeout_s: Annotated[
        float, typer.Option(help="Seconds to wait for the workers.")
    ] = 600,
) -> None:
    """Make TorchServe run what the map says. Safe to run twice."""
    with _errors():
        desired = list_desired(load_catalog(map_path, model))
        management = Management(url, key_file)
        if watch and not dry_run:
            heal_forever(desired, management, every_s=every_s, patience_s=patience_s)
        actions = registrar.plan_change(desired, management)
        console.print(
            "\n".join(map(str, actions))
            or "nothing to do: TorchServe runs what the map says"
        )
        if not dry_run:
            registrar.apply(actions, management)
            show_progress(desired, management, timeout_s)


@app.command()
def status(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    url: Url = DEFAULT_URL,
    key_file: KeyFile = KEY_FILE,
) -> None:
    """Show every language and task: model, device, workers READY, queue, batches."""
    with _errors():
        models = load_catalog(map_path, model)
        is_ready = print_status(models, Management(url, key_file))
    raise typer.Exit(0 if is_ready else 1)


def load_catalog(map_path: Path, model: str | None) -> Catalog:
    """The catalog for this host; says so where the map's GPUs are replaced by the CPU.

    Raises CatalogError where the map cannot be used.
    """
    models = catalog.load(map_path, gpus=None, model=model)
    for language in models.languages:
        if language not in LANGUAGES:
            raise CatalogError(
                f"{map_path}: cuda_id.{language}: not a language of M2M100, expected one of "
                f"{' '.join(LANGUAGES)}"
            )
    if models.is_cpu_fallback:
        console.print(
            "This host has no GPU: every model runs on the CPU.", style="yellow"
        )
    return models


def list_desired(models: Catalog, *, are_read: bool = False) -> list[registrar.Desired]:
    """What the registrar shall reach; fetches and converts what has not been. With `are_read`
    conversions are compared with their checksums, and damaged ones made again."""
    cache = checkpoint.default_cache()
    paths: dict[tuple[str, ...], Path] = {}
    for model in models.models:
        if _name_weights(model) not in paths:
            path = checkpoint.prepare(model, cache, is_read=are_read)
            paths[_name_weights(model)] = path
    return [_describe(model, paths[_name_weights(model)]) for model in models.models]


def _name_weights(model: Model) -> tuple[str, ...]:
    """What decides which directory a model's engine loads: languages share one."""
    settings = model.settings
    return (model.task, settings.model, settings.engine, model.compute_type)


def write_archives(desired: list[registrar.Desired], store: Path) -> None:
    """Writes the archive of every model."""
    for entry in desired:
        archiver.archive(entry.model, store, entry.model_path)


def _describe(model: Model, model_path: Path) -> registrar.Desired:
    return registrar.Desired(
        model,
        archive=archiver.archive_name(model),
        version=archiver.version(model, model_path),
        model_path=model_path,
    )


def heal_forever(
    desired: list[registrar.Desired],
    management: Management,
    *,
    every_s: float,
    patience_s: float,
) -> None:
    """Registers what has gone (TorchServe was restarted) and revives what is dead, and
    leaves alone what an operator has changed by hand."""
    watch = registrar.Watch(patience_s)
    while True:
        with _survive():
            for action in registrar.plan_healing(desired, management, watch):
                _heal(action, management)
        time.sleep(every_s)


def _heal(action: registrar.Action, management: Management) -> None:
    """One model that TorchServe refuses does not keep the others from being healed."""
    _say(str(action))
    with _survive():
        registrar.apply([action], management)


def _say(text: str) -> None:
    """A log that is on a full disk does not end the watch."""
    with suppress(OSError):
        console.print(text)


def show_progress(
    desired: list[registrar.Desired], management: Management, timeout_s: float
) -> None:
    """A bar of ready languages and tasks until all are."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("ready", total=_count(desired))
        for ready in registrar.poll_ready(desired, management, timeout_s):
            are_ready = [model for model in desired if model.name in ready]
            progress.update(bar, completed=_count(are_ready))


def _count(desired: list[registrar.Desired]) -> int:
    return sum(len(entry.model.serves) for entry in desired)


def print_status(models: Catalog, management: Management) -> bool:
    """Prints the table of `status`; whether every model is ready."""
    table = Table("serves", "model", "device", "READY", "queue", "batch", "delay ms")
    are_ready = []
    for entry in models.models:
        found = management.describe(entry.name)
        are_ready.append(bool(found and found.is_ready))
        state = (
            (
                f"{found.ready_workers}/{found.min_workers}",
                found.pending_requests,
                found.batch_size,
                found.max_batch_delay,
            )
            if found
            else ("not registered", "-", "-", "-")
        )
        table.add_row(
            " ".join(entry.serves),
            entry.settings.model,
            entry.device,
            *map(str, state),
        )
    console.print(table, soft_wrap=False)
    return all(are_ready)


@contextmanager
def _survive() -> Iterator[None]:
    try:
        yield
    except ManagementError as error:
        _say(str(error))


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (CatalogError, ModelError, ManagementError, TimeoutError) as error:
        console.print(str(error), style="red")
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
