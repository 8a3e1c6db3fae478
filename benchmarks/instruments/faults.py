"""Clients that ask a server all the time while a fault happens to a cluster."""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from benchmarks.instruments.cluster import NamespaceCluster, wait_until
from benchmarks.instruments.generator import (
    Generator,
    LoadReply,
    Manner,
    Target,
    ask_within,
)
from benchmarks.instruments.namespaces import Host, end
from benchmarks.report import summarize_latencies

CLIENTS = 16
#: Before a client's next request. Without it the clients alone would fill the cores, and
#: what fails would fail for that.
_PAUSE_S = 0.05
_JOIN_S = 60.0


@dataclass(frozen=True)
class Asked:
    """The answers that the clients got, complete once they have stopped."""

    replies: list[LoadReply] = field(default_factory=list)

    @property
    def failed(self) -> Mapping[str, int]:
        """The number of requests not answered with 200, by what they got."""
        return Counter(one.status for one in self.replies if not one.is_good)


@contextmanager
def keep_asking(
    target: Target, manner: Manner, *, clients: int = CLIENTS
) -> Iterator[Asked]:
    """`clients` of them ask during the block, each with a pause after its answer."""
    asked = Asked()
    stop = threading.Event()

    def keep(reply: LoadReply) -> float | None:
        asked.replies.append(reply)
        return None if stop.is_set() else reply.ended_s + _PAUSE_S

    run, arguments = Generator(target, manner).run, ([0.0] * clients, keep)
    thread = threading.Thread(target=run, args=arguments, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        stop.set()
        thread.join(_JOIN_S)


#: The time limit of each request.
LIMIT_MS = 10_000
#: The load before a fault, and after its end.
_BEFORE_S, _AFTER_S = 1.0, 2.0
#: Each of its replicas first gives away what it has taken.
_REDEPLOY_S = 240.0


#: Something that happens to a cluster. It returns when the cluster is whole.
ClusterFault = Callable[[NamespaceCluster], None]


@dataclass(frozen=True)
class FaultOutcome:
    """The answers that clients got before, during and after a fault."""

    fault: str
    answers: int
    #: The number of requests not answered with 200, by what they got.
    failed: Mapping[str, int]
    p50_ms: float | None
    slowest_s: float
    #: From the fault until the cluster was whole again.
    healed_s: float


def suffer(
    cluster: NamespaceCluster, target: Target, happen: ClusterFault, name: str = ""
) -> FaultOutcome:
    """Lets a fault happen under load. Raises ClusterError if the cluster does not heal."""
    with keep_asking(target, ask_within(LIMIT_MS), clients=CLIENTS) as asked:
        time.sleep(_BEFORE_S)
        began = time.monotonic()
        happen(cluster)
        healed_s = time.monotonic() - began
        time.sleep(_AFTER_S)
    latencies = [one.latency_s - one.lag_s for one in asked.replies]
    p50_ms, slowest_s = summarize_latencies(latencies).p50_ms, max(latencies, default=0)
    return FaultOutcome(name, len(latencies), asked.failed, p50_ms, slowest_s, healed_s)


def kill_replica(cluster: NamespaceCluster) -> None:
    """A replica ends as if it had run out of memory."""
    model = next(iter(cluster.models))
    end([psutil.Process(cluster.list_replicas(model)[0].pid)])
    cluster.wait_until_whole()


def kill_raylet(cluster: NamespaceCluster) -> None:
    """Ray ends on a host, and its supervisor starts it again."""
    host = _find_victim(cluster)
    end([process for process in host.processes() if process.name() == "raylet"])
    wait_until(
        lambda: all(process.name() != "ray" for process in host.processes()),
        "`ray start` ends without its raylet",
    )
    _revive(cluster, host)


def kill_node(cluster: NamespaceCluster) -> None:
    """A host loses its power, and comes back."""
    host = _find_victim(cluster)
    host.kill()
    _revive(cluster, host)


def cut_link(cluster: NamespaceCluster, seconds: float) -> None:
    """A host is alive but cannot be reached for a while."""
    host = _find_victim(cluster)
    host.cut()
    time.sleep(seconds)
    host.mend()
    cluster.wait_until_whole()


def lose_head(cluster: NamespaceCluster, seconds: float) -> None:
    """The head's host loses its power for a while."""
    cluster.head.kill()
    time.sleep(seconds)
    _revive(cluster, cluster.head)


def redeploy(cluster: NamespaceCluster) -> None:
    """A model's settings change, so all its replicas are replaced, one after the other."""
    model = next(iter(cluster.models))
    old = cluster.list_pids()[model]
    config = copy.deepcopy(cluster.config)
    config["applications"][0]["args"]["settings"]["max_batch_delay"] += 1
    cluster.put(config)
    wait_until(
        lambda: old.isdisjoint(cluster.list_pids()[model]),
        "all replicas are new",
        _REDEPLOY_S,
    )
    cluster.wait_until_whole()


def _find_victim(cluster: NamespaceCluster) -> Host:
    """The host with the most replicas, but not the head. The map lets no model have all of
    its replicas on one machine, or else nobody could answer."""
    placed = [
        cluster.find_host(replica)
        for model in cluster.models
        for replica in cluster.list_replicas(model)
    ]
    return max(cluster.hosts[1:], key=placed.count)


def _revive(cluster: NamespaceCluster, host: Host) -> None:
    """Start a host again, after ending what is left on it."""
    host.kill()
    cluster.start(host)
    cluster.wait_until_whole()
