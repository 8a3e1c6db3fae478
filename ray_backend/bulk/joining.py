"""Finds a cluster, and this machine in it, before Ray is asked: Ray would wait for minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from catalog import ROOT
from clients.errors import ClientError, InputError
from contract import variables
from ray_backend.dashboard import Dashboard, DashboardError, Machine
from ray_backend.nodes import LOOPBACK, PORTS, Node, read_address

#: Ray's clients give up before the run does, unless they are told.
_RECONNECT_S = 900


@dataclass(frozen=True)
class Cluster:
    """A cluster that this machine belongs to."""

    #: The head's address and port.
    head: str
    #: This machine's address.
    address: str
    #: All that are there.
    machines: tuple[Machine, ...]
    dashboard: Dashboard
    token_file: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which Ray finds it."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token_file),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": str(int(self.address != LOOPBACK)),
            "RAY_NUM_REDIS_GET_RETRIES": "1",
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(_RECONNECT_S),
        }


def find_cluster(head: str) -> Cluster:
    """Raises ClientError if it does not answer, does not know the token in
    `BABELGATE_RAY_TOKEN_FILE`, or does not have this machine."""
    host, _, port = head.partition(":")
    try:
        node = Node(read_address(host), ROOT, f"{host}:{int(port or PORTS.gcs)}")
    except ValueError as error:
        raise InputError(
            f"--address {head}: expected a head such as 10.0.0.1:{PORTS.gcs}"
        ) from error
    url = variables.RAY_DASHBOARD_URL.given
    url = url or f"http://{node.find_on_head(PORTS.dashboard)}"
    token_file = ROOT / variables.RAY_TOKEN_FILE.read()
    dashboard = Dashboard(url, token_file)
    try:
        machines = dashboard.list_machines()
    except DashboardError as error:
        raise ClientError(f"no cluster at {node.head}: {error}") from error
    address = _find_own(node.head, machines)
    return Cluster(node.head, address, machines, dashboard, token_file)


def _find_own(head: str, machines: tuple[Machine, ...]) -> str:
    own = {each.address for nic in psutil.net_if_addrs().values() for each in nic}
    found = [machine.node_ip for machine in machines if machine.node_ip in own]
    if not found:
        have = ", ".join(machine.node_ip for machine in machines)
        raise ClientError(
            f"this machine is not in the cluster at {head}, whose machines are {have}: "
            "run the command on one of them"
        )
    return found[0]
