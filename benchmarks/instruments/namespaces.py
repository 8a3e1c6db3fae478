"""Several hosts on one machine: network namespaces with addresses on one bridge. A fault of a
host is then one command: its processes are killed, or its cable is pulled out.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from benchmarks.instruments import running
from deploy.stack import StackError

#: `10.77.<network>.<host>`; this machine itself has the last address.
_PREFIX, _OURS = "10.77", 254
_NETWORKS = range(256)
_LIMIT_S = 20


@dataclass(frozen=True)
class Host:
    """A network namespace with an address of its own."""

    name: str
    address: str

    @property
    def bridge(self) -> str:
        return self.name.partition("-")[0]

    def enter(self, *command: object) -> list[str]:
        """The command line that runs `command` on the host."""
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def processes(self) -> list[psutil.Process]:
        """The processes on the host, orphans included."""
        numbers = map(int, _run_ip("ip", "netns", "pids", self.name).split())
        return [psutil.Process(pid) for pid in numbers if psutil.pid_exists(pid)]

    def kill(self) -> None:
        """Ends all its processes, as if its power were cut: what is killed may just have
        started another."""
        give_up_at = time.monotonic() + _LIMIT_S
        while (left := self.processes()) and time.monotonic() < give_up_at:
            running.kill(left)


def find_obstacle() -> str | None:
    """Find the reason why no network can be made here; None if it can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if not shutil.which("ip"):
        return "ip is missing: apt-get install iproute2"
    probe = f"bg-probe-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if done.returncode != 0:
        return f"this kernel allows no network namespaces: {done.stderr.strip()}"
    _run_ip("ip", "netns", "del", probe)
    return None


@contextmanager
def lay_network(count: int) -> Iterator[tuple[Host, ...]]:
    """`count` hosts that reach each other and this machine while the block lasts. Then all
    that runs on them is killed, and they are removed, also if this process is killed before.
    Raises StackError."""
    if obstacle := find_obstacle():
        raise StackError(obstacle)
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
    """The number of the first network that is free."""
    for number in _NETWORKS:
        command = ["ip", "link", "add", f"bg{number}", "type", "bridge"]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return number
    raise StackError("no bridge can be made; see `ip link add bg0 type bridge`")


def _add(host: Host) -> None:
    """The namespace, and a cable from it to the bridge that has the same name."""
    _run_ip("ip", "netns", "add", host.name)
    ends = ("type", "veth", "peer", "name", "eth0", "netns", host.name)
    _run_ip("ip", "link", "add", host.name, *ends)
    _run_ip("ip", "link", "set", host.name, "master", host.bridge, "up")
    inside = ("ip", "-netns", host.name)
    _run_ip(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _run_ip(*inside, "link", "set", device, "up")


def _remove(hosts: Sequence[Host]) -> None:
    """Removes what there is of them: a network may have failed half-way."""
    known = _run_ip("ip", "netns", "list").split()
    for host in hosts:
        if host.name in known:
            host.kill()
            _run_ip("ip", "netns", "del", host.name)
    # A namespace takes its cable along, but later.
    for name in (hosts[0].bridge, *(host.name for host in hosts)):
        subprocess.run(["ip", "link", "del", name], capture_output=True)


def _run_ip(*command: str) -> str:
    return running.run_command(command, _LIMIT_S)


if __name__ == "__main__":
    _remove([Host(name, "") for name in sys.argv[1:]])
