"""Bulk work on a cluster: whichever machine ends, the results have every id exactly once."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from benchmarks.instruments.generator import ask_within
from ray_backend.bulk.executor import STOPPED
from tests.cluster.faults import LIMIT_MS
from tests.cluster.machines import (
    NamespaceCluster,
    serve,
    wait_until,
    write_map,
    write_model,
)
from tests.cluster.namespaces import Host
from tests.e2e.real_stack import keep_asking, write_command
from tests.e2e.test_bulk_on_ray import COMMAND, TEXTS, WORKER, Place, end, wait_for

#: A lost machine is noticed after five failed health checks.
_ENVIRONMENT = {"RAY_health_check_period_ms": "1000"}
#: Rows of a file; a worker gets 4,096 at a time.
_LARGE = 40_000
#: The time per row: long enough for the faults to happen before the end.
_SLOW_MS = 3
#: The share of a worker that leaves no space for a second one on its machine.
_MOST_OF_A_MACHINE = ("--cpus", "3")
_NO_ROOM = (
    r"waiting for room: other work has taken it\. Each needs 3 CPU; "
    r"(10\.77\.\d+\.\d has [\d.]+ CPU(; |\.\n)){3}"
)


@pytest.fixture(scope="module")
def map_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map of the models that are served meanwhile, with one replica each."""
    folder = tmp_path_factory.mktemp("map")
    model = write_model(folder / "model", batch_ms=10)
    devices = {"fr": "cpu", "de": "cpu"}
    return write_map(folder / "map.json", devices, model=str(model))


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, map_path: Path
) -> Iterator[NamespaceCluster]:
    """Three machines without GPUs."""
    folder = tmp_path_factory.mktemp("cluster")
    with serve(folder, map_path, environment=_ENVIRONMENT) as started:
        yield started


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place in a folder that all machines share."""
    return make_place(tmp_path / "place")


def make_place(folder: Path) -> Place:
    place = Place(folder, folder)
    place.write_map(row_ms=1)
    return place


def start(
    cluster: NamespaceCluster, place: Place, *options: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run the bulk command on the head."""
    return place.start(
        options=[*TEXTS, "--address", f"{cluster.head.address}:7800", *options],
        command=cluster.head.enter(*COMMAND),
        BABELGATE_RAY_TOKEN_FILE=str(cluster.find_node(cluster.head).token_file),
    )


def find_workers(cluster: NamespaceCluster) -> dict[Host, list[psutil.Process]]:
    """Return the processes with the model of all runs, by machine."""
    found = {
        host: [each for each in host.processes() if WORKER in write_command(each)]
        for host in cluster.hosts
    }
    return {host: workers for host, workers in found.items() if workers}


def kill_machine(cluster: NamespaceCluster) -> Host:
    """Kill a machine with a worker, other than the head."""

    def find() -> list[Host]:
        return [host for host in find_workers(cluster) if host != cluster.head]

    wait_until(find, "another machine than the head has a worker")
    (victim, *_) = find()
    victim.kill()
    return victim


def test_a_killed_machine_and_a_killed_run_lose_and_double_nothing(
    cluster, place, target
):
    ids = place.write_sources(_LARGE)
    with start(cluster, place, "--workers", "3") as run:
        with keep_asking(target, ask_within(LIMIT_MS), clients=2) as replies:
            wait_for(run, lambda: place.count_parts() > 0)
        assert {one.status for one in replies} == {"200"}
        killed = kill_machine(cluster)
        before = place.count_parts()
        wait_for(run, lambda: place.count_parts() > before)
        run.kill()
    wait_until(lambda: not find_workers(cluster), "the workers of a killed run end")
    cluster.start(killed)
    with start(cluster, place, "--workers", "3") as run:
        code, said = end(run)
    assert code == 0, said
    place.check(ids)


def test_a_run_waits_for_room_and_ctrl_c_makes_some(cluster, place, tmp_path):
    hosts = sorted(host.address for host in cluster.hosts)
    wait_until(
        lambda: sorted(m.node_ip for m in cluster.dashboard.list_machines()) == hosts,
        "all machines are there",
    )
    place.write_sources(_LARGE)
    place.write_map(row_ms=_SLOW_MS)
    other = make_place(tmp_path / "other")
    ids = other.write_sources(100)
    with start(cluster, place, *_MOST_OF_A_MACHINE, "--workers", "3") as first:
        wait_for(first, lambda: len(find_workers(cluster)) == 3)
        with start(cluster, other, *_MOST_OF_A_MACHINE) as second:
            assert second.stderr is not None
            line = second.stderr.readline()
            first.send_signal(signal.SIGINT)
            assert end(first) == (130, f"{STOPPED}\n")
            assert end(second) == (0, "")
    assert re.fullmatch(_NO_ROOM, line), line
    other.check(ids)
    wait_until(lambda: not find_workers(cluster), "no worker is left")
