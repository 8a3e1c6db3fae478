"""The workers of a run, and the cluster that they find room on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from catalog import ROOT
from clients.errors import ClientError, InputError
from contract import variables
from ray_backend.dashboard import Dashboard, DashboardError, Machine
from ray_backend.deployment import describe_machine, describe_resources
from ray_backend.nodes import LOOPBACK, PORTS, Node, read_address

#: Ray's clients give up before the run does, unless they are told.
_RECONNECT_S = 900
#: The share of a machine's accelerator that a worker asks for to get that kind.
_TRACE = 0.001
_ROUNDING = 1e-6


@dataclass(frozen=True)
class WorkerPool:
    """The workers of a run, and what each takes."""

    size: int
    cpus: int
    gpus: float
    #: The kind of the GPU; None for any.
    accelerator: str | None = None

    @property
    def needs(self) -> Mapping[str, float]:
        """The resources of a worker, in Ray's words."""
        kind = {f"accelerator_type:{self.accelerator}": _TRACE}
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        return needs | (kind if self.accelerator else {})


@dataclass(frozen=True)
class RayCluster:
    """A cluster that this machine belongs to."""

    #: The head's address and port.
    head: str
    #: This machine's address.
    address: str
    #: The machines of the cluster.
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


def find_cluster(head: str) -> RayCluster:
    """Asks the dashboard, because Ray would wait for minutes. Raises ClientError if it does not
    answer, does not know the token in `BABELGATE_RAY_TOKEN_FILE`, or lacks this machine."""
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
    own = {each.address for nic in psutil.net_if_addrs().values() for each in nic}
    have = [machine.node_ip for machine in machines]
    found = [address for address in have if address in own]
    if not found:
        raise ClientError(
            f"this machine is not in the cluster at {node.head}, whose machines are "
            f"{', '.join(have)}: run the command on one of them"
        )
    return RayCluster(node.head, found[0], machines, dashboard, token_file)


def fit(pool: WorkerPool, machines: Sequence[Machine]) -> WorkerPool:
    """The pool with no more workers than the machines could take if they did nothing else.
    Raises InputError if they could take none."""
    places = sum(_count_places(pool.needs, machine) for machine in machines)
    if places == 0:
        raise InputError(f"no machine can take a worker. {explain(pool, machines)}")
    return replace(pool, size=min(pool.size, places))


def explain(pool: WorkerPool, machines: Sequence[Machine]) -> str:
    """Explain the needs of a worker, and the machines."""
    have = "; ".join(map(describe_machine, machines))
    return f"Each needs {describe_resources(pool.needs)}; {have}."


def list_free(cluster: RayCluster | None) -> list[Machine]:
    """The machines with what nobody has taken there. Raises DashboardError if the cluster is
    away, and ClientError if Ray has ended where the command runs."""
    import ray
    from ray._private import state  # nothing public tells what is free where

    if cluster:
        cluster.dashboard.list_machines()  # Ray would wait for it
    own = ray.get_runtime_context().get_node_id()
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    if own not in nodes:
        raise ClientError("Ray has ended on this machine; the same command goes on")
    free = state.available_resources_per_node()
    return [
        Machine(
            node_ip=node["NodeManagerAddress"],
            state="ALIVE",
            resources_total=free[number],
        )
        for number, node in nodes.items()
        if number in free
    ]


def _count_places(needs: Mapping[str, float], machine: Machine) -> int:
    return min(
        int(machine.resources_total.get(kind, 0) / amount + _ROUNDING)
        for kind, amount in needs.items()
        if amount
    )
