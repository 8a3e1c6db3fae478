"""`python -m benchmarks ingress`: what the way to a model on a Ray cluster costs, and
what more machines are worth.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

import catalog
from benchmarks.driver import read_words, say
from benchmarks.instruments import cluster as rig
from benchmarks.instruments import load, running
from benchmarks.instruments.cluster import NamespaceCluster, write_map, write_model
from benchmarks.instruments.generator import Leaders, Request
from benchmarks.instruments.load import ClusterLoad, measure_closed
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import write_request
from benchmarks.report import Findings, tabulate
from handlers.engine.translation.engine import Sentence
from ray_backend.nodes import PORTS

_LANGUAGE, _MACHINES = "fr", 3
_TEXTS = 500
#: The duration of a batch, and where machines are compared: then two cores are idle enough
#: for three of them.
_BATCH_MS, _SLEEP_MS = 20, 400
_FEW_ROWS, _CLIENTS_EACH = 16, 40
_WARM_S, _COUNTED_S = 2.0, 60.0


def answer(*, parts: str, clients: int, seconds: float) -> Iterator[Findings]:
    """A cluster of network namespaces on this machine; only root may make them.

    A table for each part: ways to a model (on Ray and in the gateway), and one to three
    machines.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        bench = _Bench(Path(name), clients, seconds)
        measured: dict[str, Callable[[], Iterator[Any]]] = {
            "ways": bench.measure_ways,
            "machines": bench.measure_machines,
        }
        for part in read_words(parts, measured):
            say(f"{part}: starting machines")
            found = list(measured[part]())
            yield Findings(tabulate(found), found, part=part)


@dataclass(frozen=True)
class _Bench:
    """Starts clusters and gateways, and asks them."""

    folder: Path
    clients: int
    seconds: float

    def measure_ways(self) -> Iterator[ClusterLoad]:
        """Through a gateway that has the model itself, and one before the cluster."""
        map_path = self._write_config("ways", batch_ms=_BATCH_MS, replicas=1)
        with running.start_embedded(self.folder / "embedded", map_path) as gateway:
            yield self._measure("embedded", gateway, f"{gateway.url}/metrics")
        with (
            rig.start_cluster(self.folder / "ways", 1) as cluster,
            self._serve(cluster, map_path) as gateway,
        ):
            leaders = {**gateway.leaders, **_find_leaders(cluster)}
            page = f"http://{cluster.head.address}:{PORTS.metrics}/metrics"
            yield self._measure("Ray", replace(gateway, leaders=leaders), page)

    def measure_machines(self) -> Iterator[ClusterLoad]:
        """One replica per machine, and as many clients for each."""
        with rig.start_cluster(self.folder / "machines", _MACHINES) as cluster:
            for count in range(1, _MACHINES + 1):
                map_path = self._write_config(
                    f"machines-{count}",
                    batch_ms=_SLEEP_MS,
                    replicas=count,
                    max_replicas_per_machine=1,
                    batch_size=_FEW_ROWS,
                    max_batch_delay=100,
                )
                with self._serve(cluster, map_path) as gateway:
                    target = gateway.aim(_write_requests())
                    asking = count * _CLIENTS_EACH
                    measure_closed(target, clients=asking, seconds=_WARM_S)
                    found = measure_closed(target, clients=asking, seconds=self.seconds)
                yield ClusterLoad(f"{count} machines", found, machines=count)

    def _measure(self, name: str, stack: Running, page: str) -> ClusterLoad:
        """`page` has the model's counters."""
        say(name)
        target = stack.aim(_write_requests())
        measure_closed(target, clients=self.clients, seconds=_WARM_S)
        before = load.read_counters(page)
        figures = measure_closed(target, clients=self.clients, seconds=self.seconds)
        # Ray shows what a replica has counted after some seconds.
        rows_done = before["rows"] + figures.answers
        running.wait_until(
            lambda: load.read_counters(page)["rows"] >= rows_done,
            "all rows are counted",
            _COUNTED_S,
        )
        counted = load.describe_workers(before, load.read_counters(page))
        return ClusterLoad(name, figures, counted.batch_fill)

    def _write_config(self, name: str, *, batch_ms: int, **settings: object) -> Path:
        model = write_model(self.folder / f"model-{batch_ms}", batch_ms=batch_ms)
        path = self.folder / f"{name}.json"
        return write_map(path, {_LANGUAGE: "cpu"}, model=str(model), **settings)

    def _serve(
        self, cluster: NamespaceCluster, map_path: Path
    ) -> AbstractContextManager[Running]:
        """A gateway before the cluster, which serves this map alone."""
        cluster.deploy(catalog.load(map_path, is_cluster=True))
        cluster.wait_until_whole()
        run = self.folder / f"gateway-{map_path.stem}"
        return cluster.start_gateway(run, map_path)


def _write_requests() -> list[Request]:
    """The same texts in every run."""
    texts = (f"Good morning {n}" for n in range(_TEXTS))
    return [write_request(Sentence(text, "en", _LANGUAGE)) for text in texts]


def _find_leaders(cluster: NamespaceCluster) -> Leaders:
    """The ingress of the head and the model's one replica. Beside HAProxy there is Ray's own
    proxy, which then has nothing to do."""
    named = {
        process.cmdline()[0].partition(" ")[0]: process
        for process in cluster.head.processes()
        if process.cmdline()
    }
    (replica,) = cluster.list_replicas(_LANGUAGE)
    return {
        "ingress": named["ray::HAProxyManager"],
        "replica": psutil.Process(replica.pid),
    }
