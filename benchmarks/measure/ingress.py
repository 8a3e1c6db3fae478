"""`python -m benchmarks ingress`: measures the cost of the path to a model on a Ray cluster."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

import catalog
from benchmarks.driver import say
from benchmarks.instruments import cluster as rig
from benchmarks.instruments import load, running
from benchmarks.instruments.cluster import NamespaceCluster
from benchmarks.instruments.generator import Leaders
from benchmarks.instruments.load import LoadFigures, measure_closed
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import write_request
from benchmarks.report import Findings, tabulate
from handlers.engine.translation.engine import Sentence
from ray_backend.nodes import PORTS

_LANGUAGE, _BATCH_MS = "fr", 20
_TEXTS = 500
_WARM_S, _COUNTED_S = 2.0, 60.0


@dataclass(frozen=True)
class WayFigures:
    """The load on one path to the model, and the mean rows of its batches."""

    name: str
    load: LoadFigures
    batch_fill: float | None


def answer(*, clients: int, seconds: float) -> Findings:
    """Compare a gateway that runs the model itself with one in front of a Ray machine.

    The Ray machine is a network namespace on this one, which only root can create.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        model = rig.write_model(folder / "model", batch_ms=_BATCH_MS)
        map_path = folder / "map.json"
        rig.write_map(map_path, {_LANGUAGE: "cpu"}, model=str(model), replicas=1)
        with running.start_embedded(folder / "embedded", map_path) as gateway:
            page = f"{gateway.url}/metrics"
            embedded = _measure(
                "embedded", gateway, page, clients=clients, seconds=seconds
            )
        with rig.start_cluster(folder / "cluster", 1) as cluster:
            cluster.deploy(catalog.load(map_path, is_cluster=True))
            cluster.wait_until_whole()
            with cluster.start_gateway(folder / "gateway", map_path) as gateway:
                leaders = {**gateway.leaders, **_find_leaders(cluster)}
                stack = replace(gateway, leaders=leaders)
                page = f"http://{cluster.head.address}:{PORTS.metrics}/metrics"
                ray = _measure("Ray", stack, page, clients=clients, seconds=seconds)
    found = [embedded, ray]
    return Findings(tabulate(found), found)


def _measure(
    name: str, stack: Running, page: str, *, clients: int, seconds: float
) -> WayFigures:
    """Measure a load of texts that are the same in every run; `page` has the counters."""
    say(name)
    texts = (f"Good morning {n}" for n in range(_TEXTS))
    requests = [write_request(Sentence(text, "en", _LANGUAGE)) for text in texts]
    target = stack.aim(requests)
    measure_closed(target, clients=clients, seconds=_WARM_S)
    before = load.read_counters(page)
    figures = measure_closed(target, clients=clients, seconds=seconds)
    # Ray publishes a replica's counters some seconds later.
    rows_done = before["rows"] + figures.answers
    running.wait_until(
        lambda: load.read_counters(page)["rows"] >= rows_done,
        "all rows are counted",
        _COUNTED_S,
    )
    counted = load.describe_workers(before, load.read_counters(page))
    return WayFigures(name, figures, counted.batch_fill)


def _find_leaders(cluster: NamespaceCluster) -> Leaders:
    """Find the ingress and the model's one replica. With HAProxy, Ray's own proxy is idle."""
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
