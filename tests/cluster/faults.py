"""Faults of a cluster, under load until it is whole again."""

import copy
import time
from collections import Counter
from collections.abc import Callable

import psutil

from benchmarks.instruments import running
from benchmarks.instruments.generator import Target, ask_within
from tests.cluster.machines import NamespaceCluster, wait_until
from tests.cluster.namespaces import Host
from tests.e2e.real_stack import keep_asking

#: The time limit of each request.
LIMIT_MS = 10_000
#: The seconds of load before a fault, and after the recovery.
_BEFORE_S, _AFTER_S = 1.0, 2.0
#: Long, because each replica finishes its rows first.
_REDEPLOY_S = 240.0
_PLUG_S = 20
#: A fault that returns once the cluster can recover.
ClusterFault = Callable[[NamespaceCluster], None]


def suffer(
    cluster: NamespaceCluster, target: Target, happen: ClusterFault
) -> Counter[str]:
    """Count the statuses that clients get during a fault, until the cluster is whole again.
    Raises StackError if it does not recover."""
    with keep_asking(target, ask_within(LIMIT_MS)) as replies:
        time.sleep(_BEFORE_S)
        happen(cluster)
        cluster.wait_until_whole()
        time.sleep(_AFTER_S)
    return Counter(one.status for one in replies)


def kill_replica(cluster: NamespaceCluster) -> None:
    """Kill a replica, as if it had run out of memory."""
    model = next(iter(cluster.models))
    running.kill([psutil.Process(cluster.list_replicas(model)[0].pid)])


def kill_node(cluster: NamespaceCluster) -> None:
    """Cut a host's power, and start it again."""
    host = _find_victim(cluster)
    host.kill()
    cluster.start(host)


def cut_link(cluster: NamespaceCluster, seconds: float) -> None:
    """Make a running host unreachable for a while."""
    host = _find_victim(cluster)
    plug = ("ip", "link", "set", host.name)
    # Packets to it and from it are dropped silently.
    running.run_command((*plug, "nomaster"), _PLUG_S)
    time.sleep(seconds)
    running.run_command((*plug, "master", host.bridge), _PLUG_S)


def lose_head(cluster: NamespaceCluster, seconds: float) -> None:
    """Cut the power of the head's host for a while."""
    cluster.head.kill()
    time.sleep(seconds)
    cluster.start(cluster.head)


def redeploy(cluster: NamespaceCluster) -> None:
    """Change a model's settings, so that all its replicas are replaced, one after the other."""
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
    """Return the process ids of each model's replicas. Raises DashboardError."""
    return {
        name: {each.pid for each in cluster.list_replicas(name) if each.pid}
        for name in cluster.models
    }


def _find_victim(cluster: NamespaceCluster) -> Host:
    """Return the host with most replicas, but not the head; by the map, others have some."""
    placed = [
        cluster.find_host(replica)
        for model in cluster.models
        for replica in cluster.list_replicas(model)
    ]
    return max(cluster.hosts[1:], key=placed.count)
