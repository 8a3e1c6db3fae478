"""TorchServe's part of a stack: archives, registration, and how the models are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console

from catalog import Catalog
from catalog.display import load_catalog
from deploy.polling import attempts
from deploy.stack import Stack
from deploy.supervision import Supervision
from torchserve_backend import display, preparation, registrar
from torchserve_backend.management import Management, ManagementError
from torchserve_backend.registrar import Desired


class TorchServe:
    """TorchServe's part of a stack, step by step as `deploy.lifecycle.Serving` says."""

    def __init__(self, stack: Stack, console: Console) -> None:
        self._stack = stack
        self._console = console
        self._management = Management(stack.management_url, stack.key_file)
        self._desired: list[Desired] = []

    def load(self) -> Catalog:
        return load_catalog(self._stack.map, self._stack.model, self._console)

    def prepare(self, models: Catalog) -> None:
        self._desired = preparation.list_desired(models, are_read=True)

    def write(self) -> None:
        preparation.write_archives(self._desired, self._stack.store)

    def bring_up(self, *, timeout_s: float) -> None:
        with self._console.status("Waiting for TorchServe …"):
            wait_for_torchserve(Supervision(self._stack), self._management)
        mend(self._desired, self._management, self._console)
        display.show_progress(
            self._desired, self._management, self._console, timeout_s=timeout_s
        )

    def show(self) -> bool:
        stack = self._stack
        models = load_catalog(stack.frozen_map, stack.model, self._console)
        return display.show_states(models, self._management, self._console)


def wait_for_torchserve(supervision: Supervision, management: Management) -> None:
    """Returns when TorchServe answers. Raises TimeoutError if it does not start."""
    for _ in attempts():
        with suppress(ManagementError):
            management.names()
            return
        if supervision.states()["torchserve"] == "FATAL":
            break
    raise TimeoutError("TorchServe did not start.")


def mend(desired: Sequence[Desired], management: Management, console: Console) -> None:
    """Brings TorchServe to what the map says; names the models that go."""
    actions = registrar.plan_change(desired, management)
    gone = [action for action in actions if action.desired is None]
    kept = len(desired) + len(gone) - len(actions)
    said = f"{kept} of {len(desired)} models already registered"
    console.print(said, *map(str, gone), sep="\n")
    registrar.apply(actions, management)
