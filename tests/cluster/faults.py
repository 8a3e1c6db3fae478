"""Faults of a cluster, under load until it is whole again."""

import copy
import time
from collections import Counter
from collections.abc import Callable

import psutil

from benchmarks.instruments import running
from benchmarks.instruments.cluster import NamespaceCluster, wait_until
from benchmarks.instruments.generator import Target, ask_within
from benchmarks.instruments.namespaces import Host
from tests.e2e.real_stack import keep_asking

#: The time limit of each request.
LIMIT_MS = 10_000
#: The load before a fault, and after its end.
_BEFORE_S, _AFTER_S = 1.0, 2.0
#: Each of its replicas first gives away what it has taken.
_REDEPLOY_S = 240.0
_PLUG_S = 20
#: Something that happens to a cluster, until it can heal.
ClusterFault = Callable[[NamespaceCluster], None]


def suffer(
    cluster: NamespaceCluster, target: Target, happen: ClusterFault
) -> Counter[str]:
    """Count what clients get while a fault happens, until the cluster is whole again. Raises
    StackError if it does not heal."""
    with keep_asking(target, ask_within(LIMIT_MS)) as replies:
        time.sleep(_BEFORE_S)
        happen(cluster)
        cluster.wait_until_whole()
        time.sleep(_AFTER_S)
    return Counter(one.status for one in replies)


def kill_replica(cluster: NamespaceCluster) -> None:
    """A replica ends as if it had run out of memory."""
    model = next(iter(cluster.models))
    running.kill([psutil.Process(cluster.list_replicas(model)[0].pid)])


def kill_node(cluster: NamespaceCluster) -> None:
    """A host loses its power, and comes back."""
    host = _find_victim(cluster)
    host.kill()
    cluster.start(host)


def cut_link(cluster: NamespaceCluster, seconds: float) -> None:
    """A host is alive but cannot be reached for a while."""
    host = _find_victim(cluster)
    plug = ("ip", "link", "set", host.name)
    # Packets to it and from it vanish without a word.
    running.run_command((*plug, "nomaster"), _PLUG_S)
    time.sleep(seconds)
    running.run_command((*plug, "master", host.bridge), _PLUG_S)


def lose_head(cluster: NamespaceCluster, seconds: float) -> None:
    """The head's host loses its power for a while."""
    cluster.head.kill()
    time.sleep(seconds)
    cluster.start(cluster.head)


def redeploy(cluster: NamespaceCluster) -> None:
    """A model's settings change, so all its replicas are replaced, one after the other."""
    model = next(iter(cluster.models))
    old = list_pids(cluster)[model]
    config = copy.deepcopy(cluster.config)
    config["applications"][0]["args"]["settings"]["max_batch_delay"] += 1
    cluster.put(config)
    wait_until(
        lambda: old.isdisjoint(list_pids(cluster)[model]),
        "all replicas are new",
        limit_s=_REDEPLOY_S,
    )


def list_pids(cluster: NamespaceCluster) -> dict[str, set[int]]:
    """The processes of each model. Raises DashboardError."""
    return {
        name: {each.pid for each in cluster.list_replicas(name) if each.pid}
        for name in cluster.models
    }


def _find_victim(cluster: NamespaceCluster) -> Host:
    """The host with the most replicas, but not the head. The map lets no model have all of
    its replicas on one machine, or else nobody could answer."""
    placed = [
        cluster.find_host(replica)
        for model in cluster.models
        for replica in cluster.list_replicas(model)
    ]
    return max(cluster.hosts[1:], key=placed.count)
