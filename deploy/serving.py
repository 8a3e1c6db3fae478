"""The models' part of a stack, on TorchServe or on a Ray cluster: its preparation, its start,
and the states of the models.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ctranslate2

import catalog
from catalog import Catalog, CatalogError, checkpoint
from catalog.display import console, make_progress, make_table
from contract import durable
from deploy.stack import Backend, Stack, StackError
from deploy.supervision import Supervision
from ray_backend import deployment
from ray_backend.config import make_config
from ray_backend.deployment import Dashboard, DashboardError
from torchserve_backend import archiver, registrar
from torchserve_backend.archiver import Desired
from torchserve_backend.management import Management, ManagementError

#: The longest wait for a program to answer.
_START_S = 90


def choose_serving(stack: Stack) -> TorchServe | Cluster:
    """Return the server of a stack's models, whose steps raise the errors of `up`. Raises
    StackError if Ray is needed and not installed."""
    if stack.server != "ray":
        return TorchServe(stack)
    if find_spec("ray") is None:
        raise StackError("Ray is missing: `make .venv/ready-cluster` installs it.")
    return Cluster(stack)


class TorchServe:
    """TorchServe's part of a stack, step by step."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._management = Management(stack.management_url, stack.key_file)
        self._desired: list[Desired] = []

    def load(self, path: Path) -> Catalog:
        """Return a map's models, with a message if the CPU replaces the map's GPUs. Raises
        CatalogError for a precision that the CPU lacks: the workers would fail forever."""
        models = catalog.load(path, gpus=None, model=self._stack.model)
        known = ctranslate2.get_supported_compute_types("cpu")
        for model in models.models:
            is_limited = model.settings.engine == "ctranslate2" and not model.is_on_gpu
            if is_limited and model.compute_type not in known:
                raise CatalogError(
                    f"{path}: compute_type: expected auto, {', '.join(sorted(known))} on "
                    f"this CPU, found {model.compute_type}"
                )
        if models.unchecked_gpus:
            named = ", ".join(f"GPU {number}" for number in models.unchecked_gpus)
            told = "This host has no GPU: every model runs on the CPU"
            console.print(f"{told}. Not checked: {named}.", style="yellow")
        return models

    def show_map(self, models: Catalog) -> None:
        """Show which model runs where. Raises ModelError if a local one lacks a language."""
        table = make_table(
            "serves", "device", "engine", "precision",
            "workers", "batch", "delay ms", "queue",
        )  # fmt: skip
        for model in models.models:
            s = model.settings
            found = checkpoint.locate(s.model, checkpoint.default_cache())
            if model.languages and found.exists():
                checkpoint.check_languages(model, found)
            counts = (model.workers, s.batch_size, s.max_batch_delay, s.queue_size)
            table.add_row(
                " ".join(model.serves),
                model.device,
                s.engine,
                model.compute_type,
                *map(str, counts),
            )
        console.print(table, soft_wrap=False)

    def prepare(self, models: Catalog) -> None:
        """Download and convert the weights, before any change to the stack."""
        self._desired = archiver.list_desired(models, are_read=True)

    def write(self) -> None:
        """Write the files that the server reads."""
        archiver.write_archives(self._desired, self._stack.store)

    def show_changes(self) -> None:
        """Show the changes that `bring_up` would make."""
        actions = registrar.plan_change(self._desired, self._management)
        nothing = "nothing to change: TorchServe runs what the map says"
        console.print("\n".join(map(str, actions)) or nothing)

    def bring_up(self, *, timeout_s: float) -> None:
        """Apply the map to the started server, and wait until all models are ready."""
        supervision = Supervision(self._stack)
        with console.status("Waiting for TorchServe …"):
            wait_for(supervision, "torchserve", self._management.names)
        mend(self._desired, self._management)
        with make_progress() as progress:
            bar = progress.add_task("ready", total=len(self._desired))
            polled = registrar.poll_ready(self._desired, self._management, timeout_s)
            for ready in polled:
                progress.update(bar, completed=len(ready))
                supervision.states()  # raises StackError after `make down`

    def show(self) -> bool:
        """Show the models' states, and return whether all are ready."""
        models = self.load(self._stack.frozen_map).models
        table = make_table(
            "serves", "model", "device", "READY", "queue", "batch", "delay ms"
        )
        pairs = [(model, self._management.describe(model.name)) for model in models]
        for model, found in pairs:
            state: Sequence[object] = ("not registered", "-", "-", "-")
            if found:
                state = (
                    f"{found.ready_workers}/{found.min_workers}",
                    found.pending_requests,
                    found.batch_size,
                    found.max_batch_delay,
                )
            cells = (" ".join(model.serves), model.settings.model, model.device)
            table.add_row(*cells, *map(str, state))
        console.print(table, soft_wrap=False)
        return all(found and found.serves(model) for model, found in pairs)


def mend(desired: Sequence[Desired], management: Management) -> None:
    """Apply the map to TorchServe, and print the models that are removed."""
    actions = registrar.plan_change(desired, management)
    gone = [action for action in actions if action.desired is None]
    kept = len(desired) + len(gone) - len(actions)
    said = f"{kept} of {len(desired)} models already registered"
    console.print(said, *map(str, gone), sep="\n")
    registrar.apply(actions, management)
    registrar.retire(desired, management)


class Cluster:
    """Ray's part of a stack, on the head or another machine, with `TorchServe`'s steps."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._dashboard = Dashboard(stack.dashboard_url, stack.node.token_file)

    def load(self, path: Path) -> Catalog:
        return catalog.load(path, model=self._stack.model, is_cluster=True)

    def show_map(self, models: Catalog) -> None:
        """Show each model as it is deployed to a cluster with the map's GPUs."""
        config = make_config(models, key="", has_gpus=True, ingress="")
        table = make_table("model", "serves", "replicas", "CPUs", "GPUs", "accelerator")
        for model, entry in zip(models.models, config["applications"], strict=True):
            (told,) = entry["deployments"]
            needs = told["ray_actor_options"]
            table.add_row(
                model.name,
                " ".join(model.serves),
                _describe_replicas(told),
                f"{needs['num_cpus']:g}",
                f"{needs['num_gpus']:g}",
                needs.get("accelerator_type", "any" if needs["num_gpus"] else "-"),
            )
        console.print(table, soft_wrap=False)

    def prepare(self, models: Catalog) -> None:
        """Check in time that the models exist. Replicas prepare them on their machines."""
        self._models = models
        if not self._stack.head:
            archiver.list_desired(models, are_read=True)

    def write(self) -> None:
        """Make the secrets; those of the head must have been copied by the operator. Raises
        StackError if one is missing."""
        node = self._stack.node
        node.folder.chmod(0o700)
        keys = [self._stack.ray_key_file] if self._stack.is_door else []
        for file in (node.token_file, *keys):
            if not node.head:
                durable.make_secret(file)
            elif not file.exists():
                raise StackError(
                    f"{file} is missing: copy run/ray/{file.name} from the head."
                )

    def show_changes(self) -> None:
        if not self._stack.head:
            self._plan()

    def bring_up(self, *, timeout_s: float) -> None:
        node = self._stack.node
        with console.status("Waiting for Ray …"):
            wait_for(Supervision(self._stack), "ray", self.find_machine)
        if node.head:
            return
        config = self._plan()
        durable.write(self._stack.deployed, json.dumps(config))
        deployment.apply(self._dashboard, config)
        deployment.show_progress(self._dashboard, config, timeout_s=timeout_s)

    def show(self) -> bool:
        stack = self._stack
        # A machine that has joined without a gateway has no map.
        models = self.load(stack.frozen_map) if stack.is_door else None
        return deployment.show_states(models, self._dashboard)

    def find_machine(self) -> None:
        """Raise DashboardError if this machine is not part of the cluster."""
        address = self._stack.node.address
        if all(each.node_ip != address for each in self._dashboard.list_machines()):
            raise DashboardError("this machine has not joined the cluster")

    def _plan(self) -> dict[str, Any]:
        """Return the configuration for the present cluster, after showing its changes."""
        has_gpus = deployment.has_gpus(self._dashboard.list_machines())
        if not has_gpus and any(model.is_on_gpu for model in self._models.models):
            told = "The cluster has no GPU: every model runs on the CPU."
            console.print(told, style="yellow")
        config = make_config(
            self._models,
            key=deployment.read_key(self._stack.ray_key_file),
            has_gpus=has_gpus,
            ingress=self._stack.ingress_urls.partition(",")[0],
        )
        changes = deployment.compare(config, self._dashboard.list_applications())
        nothing = "nothing to change: the cluster runs what the map says"
        console.print("\n".join(changes) or nothing)
        return config


def _describe_replicas(told: Mapping[str, Any]) -> str:
    """Return a text such as `2 to 8, 1 per machine`."""
    count = str(told.get("num_replicas"))
    if scaling := told.get("autoscaling_config"):
        count = f"{scaling['min_replicas']} to {scaling['max_replicas']}"
    most = told.get("max_replicas_per_node")
    return f"{count}, {most} per machine" if most else count


def wait_for(
    supervision: Supervision, program: Backend, ask: Callable[[], object]
) -> None:
    """Wait until a program answers. Raises TimeoutError if it does not start."""
    said = ""
    for _ in attempts():
        try:
            ask()
            return
        except (DashboardError, ManagementError) as error:
            said = str(error)
        if supervision.states()[program] == "FATAL":
            break
    name = {"ray": "Ray", "torchserve": "TorchServe"}[program]
    raise TimeoutError(f"{name} did not start: {said}")


def attempts() -> Iterator[None]:
    """Yield at short intervals, until the time for a program to start is over."""
    give_up_at = time.monotonic() + _START_S
    while time.monotonic() < give_up_at:
        yield
        time.sleep(0.3)
