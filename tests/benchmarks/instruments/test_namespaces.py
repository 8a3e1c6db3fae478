"""Hosts on one machine: they reach each other, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.instruments.cluster import wait_until
from benchmarks.instruments.namespaces import find_obstacle, lay_network
from deploy.stack import ROOT

OBSTACLE = find_obstacle()
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")
_LISTEN = (
    "import socket, sys, time\n"
    "server = socket.create_server((sys.argv[1], 7000))\n"
    "time.sleep(600)"
)


def start_listening(host) -> subprocess.Popen[bytes]:
    return subprocess.Popen(host.enter(sys.executable, "-c", _LISTEN, host.address))


def reaches(host, address: str) -> bool:
    """Whether a connection is taken within a second."""
    script = "import socket, sys; socket.create_connection((sys.argv[1], 7000), 1)"
    command = host.enter(sys.executable, "-c", script, address)
    return subprocess.run(command, capture_output=True).returncode == 0


_MAKE = """
import subprocess
import time
from benchmarks.instruments.namespaces import lay_network

with lay_network(1) as network:
    (host,) = network.hosts
    subprocess.Popen(host.enter("sleep", "600"))
    print(host.name, flush=True)
    time.sleep(600)
"""


def is_there(name: str) -> bool:
    """Whether a host has its namespace or its cable."""
    commands = (["ip", "netns"], ["ip", "link"])
    said = [subprocess.run(c, capture_output=True, text=True).stdout for c in commands]
    return name in "".join(said)


def test_hosts_reach_each_other_until_a_cable_is_out():
    with lay_network(2) as network:
        here, there = network.hosts
        with start_listening(there):
            wait_until(lambda: reaches(here, there.address), "the server listens")
            there.cut()
            assert not reaches(here, there.address)
            there.mend()
            wait_until(lambda: reaches(here, there.address), "the cable is back")
            there.kill()


def test_what_runs_on_a_host_ends_with_it_also_after_a_failure():
    started = []

    def fail() -> None:
        with lay_network(1) as network:
            started.append((network.hosts[0], start_listening(network.hosts[0])))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    ((host, process),) = started
    process.wait(10)
    assert not is_there(host.name)


def test_what_a_killed_process_has_made_is_removed():
    with subprocess.Popen(
        [sys.executable, "-c", _MAKE], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout
        name = maker.stdout.readline().strip()
        assert is_there(name)
        maker.kill()
        maker.stdout.read()  # until all have ended that may write there
    assert not is_there(name)


def test_two_networks_do_not_share_addresses():
    with lay_network(1) as one, lay_network(1) as other:
        assert one.hosts[0].address != other.hosts[0].address
