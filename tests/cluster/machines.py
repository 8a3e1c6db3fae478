"""A Ray cluster for tests, with a machine in each network namespace. Its models echo each text
after a known time.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psutil
import requests

import catalog
from benchmarks.instruments import running
from catalog import Catalog
from catalog.sections import ClusterSection
from contract import durable, variables
from deploy.stack import ROOT
from handlers.engine.directories import SETTINGS_FILE
from ray_backend import nodes
from ray_backend.config import make_config
from ray_backend.deployment import Dashboard, ReplicaStatus, read_key
from ray_backend.nodes import PORTS, Node
from tests.cluster.namespaces import Host, lay_network

#: Enough memory for Serve's messages, and more workers than Ray would start on two cores.
_OPTIONS = "--object-store-memory=80000000 --num-cpus=4"
#: Ray starts a worker for each core in advance; nothing here needs them.
_ENVIRONMENT = {
    "RAY_enable_worker_prestart": "false",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_SERVE_HAPROXY_NBTHREAD": "1",
}
_ANSWER_S = 10
wait_until = partial(running.wait_until, limit_s=120)


@dataclass
class NamespaceCluster:
    """A Ray cluster of several hosts. The first is the head."""

    hosts: tuple[Host, ...]
    folder: Path
    #: Additional options of each host's `ray start`, in the order of the hosts.
    options: Sequence[str]
    #: Additional environment variables of Ray's processes.
    environment: Mapping[str, str]
    #: The last deployed configuration.
    config: dict[str, Any] = field(default_factory=dict)
    #: The last `ray start` of each host.
    _started: dict[Host, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def head(self) -> Host:
        return self.hosts[0]

    @property
    def urls(self) -> list[str]:
        """The URL of every host's ingress."""
        return [name_ingress(host.address) for host in self.hosts]

    @property
    def models(self) -> dict[str, str]:
        """The path of each deployed model."""
        return {one["name"]: one["route_prefix"] for one in self.config["applications"]}

    @property
    def key_file(self) -> Path:
        """The file with the key that the gateway sends to replicas."""
        return self.find_node(self.head).key_file

    @property
    def dashboard_url(self) -> str:
        return f"http://{self.head.address}:{PORTS.dashboard}"

    @property
    def dashboard(self) -> Dashboard:
        return Dashboard(self.dashboard_url, self.find_node(self.head).token_file)

    def find_node(self, host: Host) -> Node:
        """Return the node of `ray_backend` on a host."""
        head = "" if host == self.head else f"{self.head.address}:{PORTS.gcs}"
        return Node(host.address, self.folder / host.name / "ray", head)

    def find_host(self, replica: ReplicaStatus) -> Host:
        return next(h for h in self.hosts if h.address == replica.node_ip)

    def start(self, host: Host) -> None:
        """Restart Ray on a host. Returns before it is ready."""
        self._end(host)
        node = self.find_node(host)
        # Ray would mistake another host's cluster on this machine for a leftover of its own.
        (node.sessions / "ray_current_cluster").unlink(missing_ok=True)
        options = dict(zip_longest(self.hosts, self.options, fillvalue=""))
        command = nodes.write_command(node, f"{_OPTIONS} {options[host]}")
        with (self.folder / f"{host.name}.log").open("ab") as log:
            self._started[host] = subprocess.Popen(
                host.enter(*command),
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "TMPDIR": str(node.link),
                    **nodes.make_environment(node),
                    **_ENVIRONMENT,
                    **self.environment,
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _end(self, host: Host) -> None:
        host.kill()
        if started := self._started.pop(host, None):
            started.wait(_ANSWER_S)

    def end(self) -> None:
        """Kill all processes on the hosts, and remove files outside the folder."""
        for host in self.hosts:
            self._end(host)
            self.find_node(host).link.unlink(missing_ok=True)

    def write(self, models: Catalog, *, has_gpus: bool) -> dict[str, Any]:
        """Return the configuration that serves only these models."""
        key = read_key(self.key_file)
        ingress = name_ingress(self.head.address)
        return make_config(models, key=key, has_gpus=has_gpus, ingress=ingress)

    def put(self, config: dict[str, Any]) -> None:
        """Replace Ray's whole configuration. Raises DashboardError."""
        self.dashboard.deploy(config)
        self.config = config

    def start_gateway(
        self, run: Path, map_path: Path
    ) -> AbstractContextManager[running.Running]:
        """Run a gateway with one process that uses all ingresses. The cluster need not serve
        all of the map's models. Raises StackError."""
        settings = {
            "GATEWAY_BACKEND": "ray",
            "WEB_CONCURRENCY": "1",
            variables.MAP.name: str(map_path),
            variables.RUN_DIR.name: str(run),
            variables.RAY_URLS.name: ",".join(self.urls),
            variables.RAY_KEY_FILE.name: str(self.key_file),
        }
        return running.start_gunicorn(run, settings, "/healthz")

    def list_replicas(self, model: str) -> list[ReplicaStatus]:
        """List the replicas that run, without dead ones that the head still reports as running.
        Raises DashboardError."""
        found = self.dashboard.list_applications()[model].model.replicas
        return [
            each
            for each in found
            if each.is_running and each.pid is not None and psutil.pid_exists(each.pid)
        ]

    def wait_until_whole(self) -> None:
        """Wait until every host has joined, every model has all its replicas, and every ingress
        reaches every model. Raises StackError."""
        goal = f"{len(self.hosts)} hosts; see {self.folder}/*.log"
        wait_until(self._has_all_hosts, goal)
        wait_until(self._is_running, "every model has all its replicas")
        wait_until(self._is_reached, "every ingress leads to every model")

    def _has_all_hosts(self) -> bool:
        """Retry a `ray start` that failed on a busy machine; in a stack, supervisord does."""
        ended = [h for h, ray in self._started.items() if ray.poll() is not None]
        for host in ended:
            self.start(host)
        return len(self.dashboard.list_machines()) == len(self.hosts)

    def _is_running(self) -> bool:
        found = self.dashboard.list_applications()
        return found.keys() == self.models.keys() and all(
            application.is_running
            and len(self.list_replicas(name)) >= application.model.wanted
            for name, application in found.items()
        )

    def _is_reached(self) -> bool:
        """Ask the ingresses: Ray has one on the head and on every host with a replica."""
        replicas = [r for name in self.models for r in self.list_replicas(name)]
        hosts = {self.head, *map(self.find_host, replicas)}
        urls = [
            f"{name_ingress(host.address)}{path}"
            for host in hosts
            for path in self.models.values()
        ]
        headers = {"Authorization": f"Bearer {read_key(self.key_file)}"}
        ask = partial(requests.get, headers=headers, timeout=_ANSWER_S)
        return all(ask(url).ok for url in urls)


def name_ingress(address: str) -> str:
    """Return the URL of a host's ingress."""
    return f"http://{address}:{PORTS.ingress}"


@contextmanager
def serve(
    folder: Path,
    map_path: Path,
    *,
    options: Sequence[str] = (),
    environment: Mapping[str, str],
    has_gpus: bool = False,
) -> Iterator[NamespaceCluster]:
    """Run three hosts that serve a map, each with its `options`. Raises StackError."""
    environment = {**environment, "BABELGATE_CACHE": str(folder / "cache")}
    with lay_network(3) as hosts:
        cluster = NamespaceCluster(hosts, folder, options, environment)
        try:
            _prepare(cluster)
            for host in hosts:
                cluster.start(host)
                wait_until(cluster.dashboard.list_machines, "the dashboard answers")
            models = catalog.load(map_path, is_cluster=True)
            cluster.put(cluster.write(models, has_gpus=has_gpus))
            cluster.wait_until_whole()
            yield cluster
        finally:
            cluster.end()


def _prepare(cluster: NamespaceCluster) -> None:
    """Write the files of every node; all share the head's secrets."""
    head = cluster.find_node(cluster.head)
    for host in cluster.hosts:
        node = cluster.find_node(host)
        (node.sessions / "ha").mkdir(parents=True)
        node.link.symlink_to(node.sessions)
        if host == cluster.head:
            durable.make_secret(head.token_file)
            durable.make_secret(head.key_file)
        else:
            shutil.copy(head.token_file, node.token_file)
            shutil.copy(head.key_file, node.key_file)


def write_model(folder: Path, *, batch_ms: int = 0, word_ms: int = 0) -> Path:
    """Write a model that sleeps for this long per batch and per word in it."""
    if not folder.exists():
        shutil.copytree(ROOT / "models" / "phrasebook", folder)
    path = folder / SETTINGS_FILE
    settings = json.loads(path.read_text("utf-8"))
    cost = {"batch_ms": batch_ms, "word_ms": word_ms}
    path.write_text(json.dumps({**settings, "echo": cost}), "utf-8")
    return folder


def write_map(path: Path, devices: Mapping[str, str], **settings: Any) -> Path:
    """Write a map with these languages on these devices, and settings of their section or of
    their placement on a cluster."""
    section = {"engine": "echo", "max_batch_delay": 5, **settings}
    names = section.keys() & ClusterSection.model_fields.keys()
    placement = {name: section.pop(name) for name in names}
    content = {
        "cuda_id": devices,
        "translation": section,
        "cluster": {"translation": placement},
    }
    path.write_text(json.dumps(content), "utf-8")
    return path
