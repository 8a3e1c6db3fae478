"""`python -m benchmarks ingress`: what the way to a model on a Ray cluster costs, what more
machines are worth, and what clients notice of faults.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import catalog
from benchmarks.driver import read_words, say
from benchmarks.instruments import cluster as rig
from benchmarks.instruments import running
from benchmarks.instruments.cluster import (
    ClusterError,
    ClusterFault,
    FaultOutcome,
    NamespaceCluster,
    start_cluster,
    suffer,
    wait_until,
)
from benchmarks.instruments.echo import write_map, write_model
from benchmarks.instruments.generator import Leaders, Request
from benchmarks.instruments.load import (
    LoadFigures,
    describe_workers,
    measure_closed,
    read_counters,
)
from benchmarks.instruments.namespaces import NoNamespaces
from benchmarks.instruments.running import Running
from benchmarks.report import Columns, Findings, list_counts, tabulate
from contract import rows
from deploy.stack import StackError
from ray_backend.dashboard import DashboardError
from ray_backend.nodes import PORTS

_LANGUAGE, _MACHINES = "fr", 3
_TEXTS = 500
#: The duration of a batch for a quick model, a slow one, and where machines are
#: compared: then two cores are idle enough for three of them.
_BATCH_MS, _SLOW_MS, _SLEEP_MS = 20, 200, 400
_FEW_ROWS, _CLIENTS_EACH = 16, 40
_WARM_S, _COUNTED_S = 2.0, 60.0
#: The one that is there first in this order takes the requests.
_INGRESSES = ("ray::HAProxyManager", "ray::ProxyActor")
_WITHOUT_HAPROXY = {"RAY_SERVE_ENABLE_HA_PROXY": "0"}


@dataclass(frozen=True)
class ClusterLoad:
    """A load on one way to a model, or on a number of machines with a replica each."""

    name: str
    load: LoadFigures
    #: Rows of a batch.
    batch_fill: float | None = None
    machines: int | None = None
    #: Its part of as many times the requests/s of one machine.
    linear_share: float | None = None


WAY_COLUMNS: Columns[ClusterLoad] = {
    "way": lambda way: way.name,
    "requests/s": lambda way: way.load.requests_per_s,
    "p50 ms": lambda way: way.load.latencies.p50_ms,
    "p99 ms": lambda way: way.load.latencies.p99_ms,
    "errors": lambda way: way.load.errors,
    "rows per batch": lambda way: way.batch_fill,
    "CPU ms: gateway": lambda way: way.load.cpu_ms.get("gateway"),
    "ingress": lambda way: way.load.cpu_ms.get("ingress"),
    "replica": lambda way: way.load.cpu_ms.get("replica"),
}
MACHINE_COLUMNS: Columns[ClusterLoad] = {
    "machines": lambda one: one.machines,
    "requests/s": lambda one: one.load.requests_per_s,
    "p50 ms": lambda one: one.load.latencies.p50_ms,
    "errors": lambda one: one.load.errors,
    "of linear": lambda one: one.linear_share,
}
FAULT_COLUMNS: Columns[FaultOutcome] = {
    "fault": lambda one: one.fault,
    "requests": lambda one: one.answers,
    "failed": lambda one: list_counts(one.failed) or "0",
    "p50 ms": lambda one: one.p50_ms,
    "slowest s": lambda one: one.slowest_s,
    "whole again after s": lambda one: one.healed_s,
}


def answer(
    *, parts: str, clients: int, seconds: float, absent_s: float
) -> Iterator[Findings]:
    """A cluster of network namespaces on this machine; only root may make them.

    A table for each part: ways to a quick model (HAProxy, Ray's own proxy and none), the
    batches of a slow one, one to three machines, and faults under 16 clients.
    """
    wanted = set(read_words(parts))
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        bench = _Bench(Path(name), clients, seconds)
        measured: dict[str, tuple[Callable[[], Iterator[Any]], Columns[Any]]] = {
            "ways": (bench.measure_ways, WAY_COLUMNS),
            "batches": (bench.measure_batches, WAY_COLUMNS),
            "machines": (bench.measure_machines, MACHINE_COLUMNS),
            "faults": (partial(bench.measure_faults, absent_s), FAULT_COLUMNS),
        }
        try:
            for part in filter(wanted.__contains__, measured):
                measure, columns = measured[part]
                found = list(measure())
                yield Findings(tabulate(found, columns), found, part=part)
        except (ClusterError, DashboardError, NoNamespaces) as error:
            raise StackError(str(error)) from error


@dataclass(frozen=True)
class _Bench:
    """Starts clusters and gateways, and asks them."""

    folder: Path
    clients: int
    seconds: float

    def measure_ways(self) -> Iterator[ClusterLoad]:
        """To a quick model, first through gateways and then at the cluster's ingress."""
        map_path = self._write("ways", batch_ms=_BATCH_MS, replicas=1)
        yield self._measure_embedded(map_path)
        with self._start("haproxy", 1, map_path) as cluster:
            yield self._measure_gateway(cluster, map_path)
            yield self._measure_door("HAProxy", cluster)
        with self._start("python", 1, map_path, **_WITHOUT_HAPROXY) as cluster:
            yield self._measure_door("Ray's own proxy", cluster)

    def measure_batches(self) -> Iterator[ClusterLoad]:
        """Through gateways to a model that is slow enough to be what all wait for."""
        map_path = self._write("batches", batch_ms=_SLOW_MS, replicas=1)
        yield self._measure_embedded(map_path)
        with self._start("slow", 1, map_path) as cluster:
            yield self._measure_gateway(cluster, map_path)

    def _measure_embedded(self, map_path: Path) -> ClusterLoad:
        run = self.folder / f"embedded-{map_path.stem}"
        with running.start_embedded(run, map_path) as gateway:
            return self._measure("embedded", gateway, [f"{gateway.url}/metrics"])

    def _measure_gateway(
        self, cluster: NamespaceCluster, map_path: Path
    ) -> ClusterLoad:
        with self._stand_before(cluster, map_path) as gateway:
            leaders = {**gateway.leaders, **_find_leaders(cluster)}
            both = Running(gateway.url, leaders)
            return self._measure("gateway and HAProxy", both, _name_pages(cluster))

    def measure_machines(self) -> Iterator[ClusterLoad]:
        """One replica per machine, and as many clients for each."""
        maps = [
            self._write(
                f"machines-{count}",
                batch_ms=_SLEEP_MS,
                replicas=count,
                max_replicas_per_machine=1,
                batch_size=_FEW_ROWS,
                max_batch_delay=100,
            )
            for count in range(1, _MACHINES + 1)
        ]
        alone = None
        with self._start("machines", _MACHINES, maps[0]) as cluster:
            for count, map_path in enumerate(maps, 1):
                if alone:
                    cluster.deploy(catalog.load(map_path, is_cluster=True))
                    cluster.wait_until_whole()
                with self._stand_before(cluster, map_path) as gateway:
                    target = gateway.aim(_write_requests())
                    asking = count * _CLIENTS_EACH
                    measure_closed(target, clients=asking, seconds=_WARM_S)
                    load = measure_closed(target, clients=asking, seconds=self.seconds)
                alone = alone or load.requests_per_s
                share = load.requests_per_s / count / alone if alone else None
                name = f"{count} machines"
                yield ClusterLoad(name, load, machines=count, linear_share=share)

    def measure_faults(self, absent_s: float) -> Iterator[FaultOutcome]:
        """One after the other on one cluster, whose model has three replicas."""
        map_path = self._write(
            "faults", batch_ms=_BATCH_MS, replicas=3, max_replicas_per_machine=2
        )
        with (
            self._start("faults", _MACHINES, map_path) as cluster,
            self._stand_before(cluster, map_path) as gateway,
        ):
            target = gateway.aim(_write_requests("/translate"))
            for name, happen in list_faults(absent_s).items():
                say(name)
                yield suffer(cluster, target, happen, name)

    def _measure_door(self, name: str, cluster: NamespaceCluster) -> ClusterLoad:
        """Rows as the gateway sends them, to an ingress without any gateway."""
        headers = {**cluster.headers, rows.REMAINING: "30000"}
        door = Running(cluster.urls[0], _find_leaders(cluster), headers)
        path = cluster.models[_LANGUAGE]
        return self._measure(name, door, _name_pages(cluster), path)

    def _measure(
        self, name: str, stack: Running, pages: Sequence[str], path: str = "/"
    ) -> ClusterLoad:
        say(name)
        target = stack.aim(_write_requests(path))
        measure_closed(target, clients=self.clients, seconds=_WARM_S)
        before = _count(pages)
        load = measure_closed(target, clients=self.clients, seconds=self.seconds)
        # Ray shows what a replica has counted after some seconds.
        rows_done = before["Rows"] + load.answers
        wait_until(
            lambda: _count(pages)["Rows"] >= rows_done,
            "all rows are counted",
            _COUNTED_S,
        )
        counted = describe_workers(before, _count(pages))
        return ClusterLoad(name, load, counted.batch_fill)

    def _write(self, name: str, *, batch_ms: int, **settings: object) -> Path:
        model = write_model(self.folder / f"model-{batch_ms}", batch_ms=batch_ms)
        path = self.folder / f"{name}.json"
        return write_map(path, {_LANGUAGE: "cpu"}, model=str(model), **settings)

    @contextmanager
    def _start(
        self, name: str, count: int, map_path: Path, **environment: str
    ) -> Iterator[NamespaceCluster]:
        say(f"starting {count} machines")
        folder = self.folder / name
        with start_cluster(folder, count, environment=environment) as cluster:
            cluster.deploy(catalog.load(map_path, is_cluster=True))
            cluster.wait_until_whole()
            yield cluster

    def _stand_before(
        self, cluster: NamespaceCluster, map_path: Path
    ) -> AbstractContextManager[Running]:
        run = self.folder / f"gateway-{map_path.stem}"
        return running.start_before_cluster(
            run, map_path, urls=cluster.urls, key_file=cluster.key_file
        )


def list_faults(absent_s: float) -> dict[str, ClusterFault]:
    """Return all faults. The head is lost first, on which Ray may place a lost replica."""
    return {
        f"the head is gone for {absent_s:g} s": partial(
            rig.lose_head, seconds=absent_s
        ),
        "a replica is killed": rig.kill_replica,
        "Ray is killed on a machine": rig.kill_raylet,
        "a machine is gone": rig.kill_node,
        "a link is cut for 30 s": partial(rig.cut_link, seconds=30),
        "the model is deployed again": rig.redeploy,
    }


def _write_requests(path: str = "/") -> list[Request]:
    """The same texts in every run, as a client or as the gateway writes them."""
    texts = [
        {"src_lang": "en", "src_text": f"Good morning {n}", "tgt_lang": _LANGUAGE}
        for n in range(_TEXTS)
    ]
    return [Request(json.dumps(text).encode(), path) for text in texts]


def _find_leaders(cluster: NamespaceCluster) -> Leaders:
    """The ingress of the head and the model's one replica. Beside HAProxy there is Ray's own
    proxy, which then has nothing to do."""
    named = {
        process.cmdline()[0].partition(" ")[0]: process
        for process in cluster.head.processes()
        if process.cmdline()
    }
    ingress = next(named[name] for name in _INGRESSES if name in named)
    (replica,) = cluster.list_replicas(_LANGUAGE)
    return {"ingress": ingress, "replica": psutil.Process(replica.pid)}


def _name_pages(cluster: NamespaceCluster) -> list[str]:
    """Name the pages with each machine's counters."""
    return [f"http://{host.address}:{PORTS.metrics}/metrics" for host in cluster.hosts]


def _count(pages: Sequence[str]) -> Counter[str]:
    counters: Counter[str] = Counter()
    for page in pages:
        counters.update(read_counters(page))
    return counters
