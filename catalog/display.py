"""The models of the map on a terminal, and the options and the console of our command lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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

import catalog
from catalog import Catalog
from contract import variables
from contract.variables import Variable


def make_option(name: str, variable: Variable) -> Any:
    """An option that the environment variable sets as well, with its meaning as help."""
    return typer.Option(name, envvar=variable.name, help=variable.meaning)


Map = Annotated[Path, make_option("--map", variables.MAP)]
ModelName = Annotated[str | None, make_option("--model", variables.MODEL)]


def make_console() -> Console:
    """A console for paths, JSON and TorchServe's messages: it has no markup, and it does not
    wrap lines, so they can be copied."""
    return Console(markup=False, highlight=False, soft_wrap=True)


@contextmanager
def show_errors(console: Console, *errors: type[Exception]) -> Iterator[None]:
    """Shows an error of these types in red, and ends the command line with 1."""
    try:
        yield
    except errors as error:
        console.print(str(error), style="red")
        raise typer.Exit(1) from error


def make_progress(console: Console) -> Progress:
    """A bar with what it counts, how many of them there are, and the time so far."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def load_catalog(map_path: Path, model: str | None, console: Console) -> Catalog:
    """The catalog for this host; tells if the CPU stands in for the map's GPUs.

    Raises CatalogError if the map cannot be used.
    """
    models = catalog.load(map_path, gpus=None, model=model)
    if models.unchecked_gpus:
        named = ", ".join(f"GPU {number}" for number in models.unchecked_gpus)
        told = "This host has no GPU: every model runs on the CPU"
        console.print(f"{told}. Not checked: {named}.", style="yellow")
    return models


def make_table(*columns: str) -> Table:
    """A table without a frame, so that 80 columns are enough. Where they are not, only the
    columns that say which models break their lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        is_short = name not in ("serves", "model", "machines")
        table.add_column(name, no_wrap=is_short, overflow="fold")
    return table


def show_models(models: Catalog, console: Console) -> None:
    """Show each model of the map."""
    table = make_table(
        *("serves", "device", "engine", "precision"),
        *("workers", "batch", "delay ms", "queue"),
    )
    for model in models.models:
        s = model.settings
        table.add_row(
            *(" ".join(model.serves), model.device, s.engine, model.compute_type),
            *map(str, (model.workers, s.batch_size, s.max_batch_delay, s.queue_size)),
        )
    console.print(table, soft_wrap=False)
