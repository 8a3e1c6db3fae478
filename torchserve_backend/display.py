"""Shows the models on a terminal: what the map says, their state, and how many are ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from torchserve_backend import catalog, registrar
from torchserve_backend.catalog import Catalog
from torchserve_backend.management import Management
from torchserve_backend.registrar import Desired


def make_console() -> Console:
    """A console for paths, JSON and TorchServe's messages: it has no markup, and it does not
    wrap lines, so they can be copied."""
    return Console(markup=False, highlight=False, soft_wrap=True)


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
    if models.is_cpu_fallback:
        console.print(
            "This host has no GPU: every model runs on the CPU.", style="yellow"
        )
    return models


def show_models(models: Catalog, console: Console) -> None:
    """What the map says of each model."""
    table = Table(
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


def show_states(models: Catalog, management: Management, console: Console) -> bool:
    """What TorchServe says of each model; whether all are ready. Raises ManagementError."""
    table = Table("serves", "model", "device", "READY", "queue", "batch", "delay ms")
    states = {model: management.describe(model.name) for model in models.models}
    for model, found in states.items():
        state: Sequence[object] = ("not registered", "-", "-", "-")
        if found:
            state = (
                f"{found.ready_workers}/{found.min_workers}",
                *(found.pending_requests, found.batch_size, found.max_batch_delay),
            )
        table.add_row(
            " ".join(model.serves), model.settings.model, model.device, *map(str, state)
        )
    console.print(table, soft_wrap=False)
    return all(found and found.is_ready for found in states.values())


def show_progress(
    desired: Sequence[Desired],
    management: Management,
    console: Console,
    *,
    timeout_s: float,
) -> None:
    """A bar of ready languages and tasks until all are.

    Raises TimeoutError if some are late, ManagementError if TorchServe does not answer.
    """
    with make_progress(console) as progress:
        bar = progress.add_task("ready", total=_count(desired))
        for ready in registrar.poll_ready(desired, management, timeout_s):
            are_ready = [model for model in desired if model.name in ready]
            progress.update(bar, completed=_count(are_ready))


def _count(desired: Iterable[Desired]) -> int:
    return sum(len(entry.model.serves) for entry in desired)
