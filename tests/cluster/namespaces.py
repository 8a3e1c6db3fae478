"""Several hosts on one machine: network namespaces with addresses on one bridge. One command
then makes a host fail: it kills the host's processes or removes its cable.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import pytest

from benchmarks.instruments import running
from deploy.stack import StackError

#: `10.77.<network>.<host>`; this machine itself has the last address.
_PREFIX, _OURS = "10.77", 254
_NETWORKS = range(256)
_LIMIT_S = 20


@dataclass(frozen=True)
class Host:
    """A network namespace with its own address."""

    name: str
    address: str

    @property
    def bridge(self) -> str:
        return self.name.partition("-")[0]

    def enter(self, *command: object) -> list[str]:
        """Return the command line that runs `command` on the host."""
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def processes(self) -> list[psutil.Process]:
        """Return the processes on the host, including orphans."""
        numbers = map(int, _run_ip("ip", "netns", "pids", self.name).split())
        return [psutil.Process(pid) for pid in numbers if psutil.pid_exists(pid)]

    def kill(self) -> None:
        """Kill all processes, as a power loss would, until none is left: a process may start
        another one just before it is killed."""
        give_up_at = time.monotonic() + _LIMIT_S
        while (left := self.processes()) and time.monotonic() < give_up_at:
            running.kill(left)


@contextmanager
def lay_network(count: int) -> Iterator[tuple[Host, ...]]:
    """Create `count` hosts that reach each other and this machine while the block lasts. Then
    their processes are killed and the hosts removed, even if this process is killed before.
    Skips the test if only another user or kernel can do that. Raises StackError."""
    if os.geteuid() != 0:
        pytest.skip("only root can create network namespaces")
    probe = f"bg-probe-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this kernel allows no network namespaces: {done.stderr.strip()}")
    _run_ip("ip", "netns", "del", probe)
    number = _add_bridge()
    hosts = tuple(
        Host(f"bg{number}-{host}", f"{_PREFIX}.{number}.{host}")
        for host in range(1, count + 1)
    )
    remove = [sys.executable, "-m", __name__, *(host.name for host in hosts)]
    with running.undo_after(remove, _LIMIT_S * (count + 1)):
        address = f"{_PREFIX}.{number}.{_OURS}"
        _run_ip("ip", "address", "add", f"{address}/24", "dev", f"bg{number}")
        _run_ip("ip", "link", "set", f"bg{number}", "up")
        for host in hosts:
            _add(host)
        yield hosts


def _add_bridge() -> int:
    """Add the bridge of the first free network, and return its number."""
    for number in _NETWORKS:
        command = ["ip", "link", "add", f"bg{number}", "type", "bridge"]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return number
    raise StackError("a bridge cannot be created; see `ip link add bg0 type bridge`")


def _add(host: Host) -> None:
    """Add a namespace, and a cable of the same name from it to the bridge."""
    _run_ip("ip", "netns", "add", host.name)
    _run_ip(
        "ip", "link", "add", host.name,
        "type", "veth", "peer", "name", "eth0", "netns", host.name,
    )  # fmt: skip
    _run_ip("ip", "link", "set", host.name, "master", host.bridge, "up")
    inside = ("ip", "-netns", host.name)
    _run_ip(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _run_ip(*inside, "link", "set", device, "up")


def _remove(hosts: Sequence[Host]) -> None:
    """Remove the hosts and their bridge, some of which are missing if their setup failed."""
    known = _run_ip("ip", "netns", "list").split()
    for host in hosts:
        if host.name in known:
            host.kill()
            _run_ip("ip", "netns", "del", host.name)
    # The end of a namespace also removes its cable, but later.
    for name in (hosts[0].bridge, *(host.name for host in hosts)):
        subprocess.run(["ip", "link", "del", name], capture_output=True)


def _run_ip(*command: str) -> str:
    return running.run_command(command, _LIMIT_S)


if __name__ == "__main__":
    _remove([Host(name, "") for name in sys.argv[1:]])
