"""A cluster for one measurement or for tests: a machine of Ray in each network namespace, and
what its dashboard says of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psutil
import requests

from benchmarks.instruments.namespaces import Host, Network, lay_network
from deploy.stack import ROOT
from ray_backend import nodes
from ray_backend.config import DEPLOYMENT, make_config
from ray_backend.nodes import PORTS, Node
from torchserve_backend.catalog import Catalog

#: Enough for what Serve sends, and as many workers as a test needs.
_OPTIONS = "--object-store-memory=80000000 --num-cpus=4"
#: Ray starts a worker for each core when it starts; nothing here needs them so early.
_ENVIRONMENT = {
    "RAY_enable_worker_prestart": "false",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_SERVE_HAPROXY_NBTHREAD": "1",
}
_START_S, _ANSWER_S, _LOOK_S = 120, 20, 0.2


class ClusterError(RuntimeError):
    """The cluster does not do what it should; the message says what it does instead."""


@dataclass(frozen=True)
class Replica:
    """A process that serves a model."""

    id: str
    pid: int
    address: str

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.pid)


@dataclass
class Cluster:
    """The hosts of a network with Ray on them. The first is the head."""

    network: Network
    folder: Path
    #: More variables of Ray's processes.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The body of the last deployment.
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def head(self) -> Host:
        return self.network.hosts[0]

    @property
    def urls(self) -> list[str]:
        """The ingress of every host."""
        return [name_ingress(host.address) for host in self.network.hosts]

    @property
    def dashboard_url(self) -> str:
        return f"http://{self.head.address}:{PORTS.dashboard}"

    @property
    def models(self) -> dict[str, str]:
        """The path of each model that has been deployed."""
        return {
            one["name"]: one["route_prefix"] for one in self.config["applications"]
        }

    @property
    def key(self) -> str:
        """What replicas ask for."""
        return self.find_node(self.head).key_file.read_text("ascii")

    def find_node(self, host: Host) -> Node:
        """What `ray_backend` knows of a host."""
        is_head = host == self.head
        head = "" if is_head else f"{self.head.address}:{PORTS.gcs}"
        return Node(host.address, self.folder / host.name, head)

    def start(self, host: Host, options: str = "") -> None:
        """Starts Ray on a host, with more options. Returns before it is ready."""
        node = self.find_node(host)
        with (self.folder / f"{host.name}.log").open("ab") as log:
            subprocess.Popen(
                host.enter(*nodes.write_command(node, f"{_OPTIONS} {options}")),
                cwd=ROOT,
                env=self._make_environment(node),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def deploy(self, models: Catalog, *, has_gpus: bool = False) -> None:
        """Serves these models, and no other any more."""
        digest = hashlib.sha256(self.key.encode("ascii")).hexdigest()
        config = make_config(models, key_digest=digest, has_gpus=has_gpus)
        listens = {"host": "0.0.0.0", "port": PORTS.ingress}
        self.put({**config, "http_options": listens})

    def put(self, config: dict[str, Any]) -> None:
        """Gives Ray the whole configuration. Raises ClusterError."""
        answer = requests.put(
            f"{self.dashboard_url}/api/serve/applications/",
            json=config,
            headers=self._headers(),
            timeout=_START_S,
        )
        if not answer.ok:
            raise ClusterError(f"{answer.status_code}: {answer.text}")
        self.config = config

    def describe(self) -> dict[str, Any]:
        """Each application as the dashboard has it. Raises requests' exceptions."""
        answer = requests.get(
            f"{self.dashboard_url}/api/serve/applications/",
            headers=self._headers(),
            timeout=_ANSWER_S,
        )
        answer.raise_for_status()
        applications: dict[str, Any] = answer.json()["applications"]
        return applications

    def is_alive(self) -> bool:
        """Whether the dashboard answers for the cluster."""
        return self.count_nodes() > 0

    def count_nodes(self) -> int:
        """The machines that the head takes for alive."""
        answer = requests.get(
            f"{self.dashboard_url}/nodes?view=summary",
            headers=self._headers(),
            timeout=_ANSWER_S,
        )
        states = [each["raylet"]["state"] for each in answer.json()["data"]["summary"]]
        return states.count("ALIVE")

    def list_replicas(self, model: str) -> list[Replica]:
        """Those that run, in the order of their names."""
        deployment = self.describe()[model]["deployments"][DEPLOYMENT]
        found = [
            Replica(each["replica_id"], each["pid"], each["node_ip"])
            for each in deployment["replicas"]
            if each["state"] == "RUNNING"
        ]
        return sorted(found, key=lambda replica: replica.id)

    def find_host(self, address: str) -> Host:
        """The host with this address."""
        return next(h for h in self.network.hosts if h.address == address)

    def wait_for_nodes(self) -> None:
        """Until all hosts are known to the head. Raises ClusterError."""
        wait_until(
            lambda: self.count_nodes() == len(self.network.hosts),
            f"{len(self.network.hosts)} nodes; see {self.folder}/*.log",
        )

    def wait_until_whole(self) -> None:
        """Until every host is there, every model has all its replicas, and every ingress
        leads to it. Raises ClusterError."""
        self.wait_for_nodes()
        wait_until(self._is_running, "every model has all its replicas")
        wait_until(self._is_reached, "every ingress leads to every model")

    def _is_running(self) -> bool:
        """The head may take a dead replica for alive for a while."""
        found = self.describe()
        wanted = {
            one["name"]: _count_wanted(one["deployments"][0])
            for one in self.config["applications"]
        }
        return found.keys() == wanted.keys() and all(
            found[name]["status"] == "RUNNING"
            and sum(psutil.pid_exists(r.pid) for r in self.list_replicas(name)) >= count
            for name, count in wanted.items()
        )

    def _is_reached(self) -> bool:
        """Ray has an ingress on the head, and where there is a replica."""
        replicas = [r for name in self.models for r in self.list_replicas(name)]
        return all(
            self.ask_state(name_ingress(address), path).ok
            for address in {self.head.address, *(r.address for r in replicas)}
            for path in self.models.values()
        )

    def ask_state(self, url: str, path: str, key: str | None = None) -> requests.Response:
        """What a model's replica says of itself through an ingress."""
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        return requests.get(f"{url}{path}", headers=headers, timeout=_ANSWER_S)

    def _headers(self) -> dict[str, str]:
        token = self.find_node(self.head).token_file.read_text("ascii")
        return {"Authorization": f"Bearer {token}"}

    def _make_environment(self, node: Node) -> dict[str, str]:
        return {
            **os.environ,
            **nodes.make_environment(node),
            **_ENVIRONMENT,
            **self.environment,
        }


def name_ingress(address: str) -> str:
    """Where a host takes requests."""
    return f"http://{address}:{PORTS.ingress}"


@contextmanager
def start_cluster(
    folder: Path,
    count: int,
    *,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[Cluster]:
    """So many hosts with Ray, each with its own of the `options`, while the block lasts.
    Raises NoNamespaces and ClusterError."""
    with lay_network(count) as network:
        cluster = Cluster(network, folder, environment or {})
        prepare(cluster)
        try:
            for host, more in zip_longest(network.hosts, options, fillvalue=""):
                cluster.start(host, more)
                wait_until(cluster.is_alive, "the head's dashboard answers")
            cluster.wait_for_nodes()
            yield cluster
        finally:
            for host in network.hosts:
                host.kill()
                cluster.find_node(host).link.unlink(missing_ok=True)


def prepare(cluster: Cluster) -> None:
    """The files of every node; all share the head's secrets."""
    head = cluster.find_node(cluster.head)
    for host in cluster.network.hosts:
        node = cluster.find_node(host)
        node.sessions.mkdir(parents=True)
        node.link.symlink_to(node.sessions)
        for mine, shared in (
            (node.token_file, head.token_file),
            (node.key_file, head.key_file),
        ):
            nodes.make_secret(shared)
            if mine != shared:
                shutil.copy(shared, mine)


def wait_until(
    condition: Callable[[], object], goal: str, limit_s: float = _START_S
) -> None:
    """Waits for it; a server that does not answer yet is no error. Raises ClusterError."""
    give_up_at = time.monotonic() + limit_s
    while not _holds(condition):
        if time.monotonic() > give_up_at:
            raise ClusterError(f"not within {limit_s:.0f} s: {goal}")
        time.sleep(_LOOK_S)


def _holds(condition: Callable[[], object]) -> bool:
    with suppress(requests.RequestException):
        return bool(condition())
    return False


def _count_wanted(deployment: Mapping[str, Any]) -> int:
    """The replicas that a deployment of the configuration has at least."""
    scaling = deployment.get("autoscaling_config", {})
    return int(deployment.get("num_replicas", scaling.get("min_replicas", 1)))
