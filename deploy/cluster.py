"""Ray's part of a stack: secrets, the deployment on the cluster, and how the models are."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

import catalog
from catalog import Catalog
from contract import durable
from deploy.polling import attempts
from deploy.stack import Stack, StackError
from deploy.supervision import Supervision
from ray_backend import deployment, display, nodes
from ray_backend.dashboard import Dashboard, DashboardError
from torchserve_backend import preparation


class Cluster:
    """Ray's part of a stack, step by step as `deploy.lifecycle.Serving` says: the head's, or
    that of a machine that joins it."""

    def __init__(self, stack: Stack, console: Console) -> None:
        self._stack = stack
        self._console = console
        self._dashboard = Dashboard(stack.dashboard_url, stack.node.token_file)

    def load(self) -> Catalog:
        return self._load(self._stack.map)

    def prepare(self, models: Catalog) -> None:
        """A replica prepares what it needs on its own machine. Here it shows in time whether
        the map's models are there."""
        if not self._stack.head:
            preparation.prepare_weights(models, are_read=True)

    def write(self) -> None:
        node = self._stack.node
        node.folder.chmod(0o700)
        if node.head:
            self._check_copied()
            return
        nodes.make_secret(node.token_file)
        nodes.make_secret(self._stack.ray_key_file)

    def bring_up(self, *, timeout_s: float) -> None:
        node = self._stack.node
        with self._console.status("Waiting for Ray …"):
            wait_for_ray(Supervision(self._stack), self._dashboard, node.address)
        if node.head:
            return
        config = display.plan(
            *(self._dashboard, self._load(self._stack.frozen_map), self._console),
            key=deployment.read_key(self._stack.ray_key_file),
            ingress=self._stack.ingress_urls.partition(",")[0],
        )
        durable.write(self._stack.deployed, json.dumps(config))
        deployment.apply(self._dashboard, config)
        display.show_progress(
            self._dashboard, config, self._console, timeout_s=timeout_s
        )

    def show(self) -> bool:
        stack = self._stack
        # A machine that has joined without a gateway knows no map.
        models = self._load(stack.frozen_map) if stack.is_door else None
        return display.show_states(models, self._dashboard, self._console)

    def _load(self, path: Path) -> Catalog:
        return catalog.load(path, model=self._stack.model, is_cluster=True)

    def _check_copied(self) -> None:
        """A machine that joins has the head's secrets, which nobody sends."""
        node = self._stack.node
        needed = [
            node.token_file,
            *([self._stack.ray_key_file] if self._stack.is_door else []),
        ]
        missing = [file for file in needed if not file.exists()]
        if missing:
            raise StackError(
                f"{missing[0]} is missing: copy run/ray/{missing[0].name} from the head."
            )


def read_address(text: str) -> str | None:
    """This machine's address, if it was said. Raises StackError."""
    try:
        return nodes.read_address(text) if text else None
    except ValueError as error:
        raise StackError(f"--address: {error}.") from error


def read_head(text: str) -> str:
    """The address and port of a cluster's head. Raises StackError."""
    try:
        return nodes.read_head(text)
    except ValueError as error:
        raise StackError(f"--head: {error}.") from error


def find_address(head: str) -> str:
    """This machine's address on the way to the head. Raises StackError."""
    try:
        return nodes.find_address(head)
    except OSError as error:
        raise StackError(f"There is no way to {head}: {error.strerror}.") from error


def wait_for_ray(supervision: Supervision, dashboard: Dashboard, address: str) -> None:
    """Returns when this machine is part of the cluster. Raises TimeoutError if it does not
    become that."""
    said = ""
    for _ in attempts():
        try:
            if any(each.node_ip == address for each in dashboard.list_machines()):
                return
            said = "the cluster does not know this machine"
        except DashboardError as error:
            said = str(error)
        if supervision.states()["ray"] == "FATAL":
            break
    raise TimeoutError(f"Ray did not start: {said}")
