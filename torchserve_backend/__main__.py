"""`python -m torchserve_backend`: check the map, write archives, register models, show
their state.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import catalog
from catalog import CatalogError, checkpoint
from catalog.display import (
    Map,
    ModelName,
    load_catalog,
    make_console,
    make_option,
    show_errors,
    show_models,
)
from contract import variables
from handlers.engine.directories import ModelError
from torchserve_backend import archiver, display, registrar
from torchserve_backend.management import Management, ManagementError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
console = make_console()
_errors = partial(
    show_errors, console, CatalogError, ModelError, ManagementError, TimeoutError
)


Store = Annotated[Path, typer.Option(help="TorchServe's model store.")]
Url = Annotated[str, make_option("--url", variables.MANAGEMENT_URL)]
KeyFile = Annotated[Path, make_option("--key-file", variables.KEY_FILE)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done and do nothing.")
]

STORE = Path(variables.RUN_DIR.read(), "torchserve", "store")
URL = variables.MANAGEMENT_URL.default
KEY_FILE = Path(variables.KEY_FILE.default)


@app.command()
def check(map_path: Map = catalog.MAP, model: ModelName = None) -> None:
    """Read the map and show which model runs where; exit 1 where it is wrong."""
    with _errors():
        models = load_catalog(map_path, model, console)
        for each in models.models:
            found = checkpoint.locate(each.settings.model, checkpoint.default_cache())
            checkpoint.check_languages(each, found)
    show_models(models, console)


@app.command()
def archive(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    store: Store = STORE,
    dry_run: DryRun = False,
) -> None:
    """Fetch and convert the model, and write one archive per model into the store."""
    with _errors():
        models = load_catalog(map_path, model, console)
        if dry_run:
            for named in map(archiver.archive_name, models.models):
                console.print(f"would write {store / named}")
            return
        desired = archiver.list_desired(models, are_read=True)
        archiver.write_archives(desired, store)
        for entry in desired:
            console.print(f"{store / entry.archive} {entry.version}")


@app.command()
def register(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    url: Url = URL,
    key_file: KeyFile = KEY_FILE,
    dry_run: DryRun = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and heal what is missing or dead.")
    ] = False,
    every_s: Annotated[
        float, typer.Option(help="With --watch: seconds between looks.")
    ] = registrar.EVERY_S,
    patience_s: Annotated[
        float,
        typer.Option(
            help="With --watch: seconds without a worker until a model is revived; longer "
            "than a start takes."
        ),
    ] = registrar.PATIENCE_S,
    timeout_s: Annotated[
        float, typer.Option(help="Seconds to wait for the workers.")
    ] = 600,
) -> None:
    """Make TorchServe run what the map says. Safe to run twice."""
    with _errors():
        models = load_catalog(map_path, model, console)
        desired = archiver.list_desired(models)
        management = Management(url, key_file)
        if watch and not dry_run:
            registrar.heal_forever(
                desired,
                management,
                console.print,
                every_s=every_s,
                patience_s=patience_s,
            )
        actions = registrar.plan_change(desired, management)
        console.print(
            "\n".join(map(str, actions))
            or "nothing to do: TorchServe runs what the map says"
        )
        if not dry_run:
            registrar.apply(actions, management)
            display.show_progress(desired, management, console, timeout_s=timeout_s)


@app.command()
def status(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    url: Url = URL,
    key_file: KeyFile = KEY_FILE,
) -> None:
    """Show every language and task: model, device, workers READY, queue, batches."""
    with _errors():
        models = load_catalog(map_path, model, console)
        is_ready = display.show_states(models, Management(url, key_file), console)
    raise typer.Exit(0 if is_ready else 1)


if __name__ == "__main__":
    app()
