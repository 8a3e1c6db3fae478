"""Shows the models of TorchServe on a terminal: their state, and how many are ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from catalog import Catalog
from catalog.display import make_progress, make_table
from torchserve_backend import registrar
from torchserve_backend.archiver import Desired
from torchserve_backend.management import Management


def show_states(models: Catalog, management: Management, console: Console) -> bool:
    """Show TorchServe's state of each model, and return whether all are ready. Raises
    ManagementError."""
    table = make_table(
        "serves", "model", "device", "READY", "queue", "batch", "delay ms"
    )
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
