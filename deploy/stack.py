"""A stack's files and ports: it copies configuration files into the run directory."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from contract import variables
from contract.variables import Variable
from deploy import statefiles

ROOT = Path(__file__).parents[1]

DOOR, GATEWAY, INFERENCE, MANAGEMENT, METRICS = 7777, 8888, 9999, 8081, 8082
EXPORTER = 8083
_PORTS = (DOOR, GATEWAY, INFERENCE, MANAGEMENT, METRICS, EXPORTER, 7070, 7071)
_PORT = re.compile(r"\b(" + "|".join(map(str, _PORTS)) + r")\b")
_STATE = "stack.json"
#: The names of the certificate and key in nginx/tls.conf.
_TLS_FILES = ("certificate.pem", "key.pem")
_MEMORY = Path("/dev/shm")


class StackError(Exception):
    """The stack cannot be started; the message says what to do."""


@dataclass(frozen=True)
class Stack:
    """One stack: its run directory, map, model, and port offset."""

    run: Path
    map: Path
    model: str | None = None
    port_offset: int = 0
    #: The files of a certificate and its key, separated by a comma.
    tls: str | None = None

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
        base = move_ports(variables.METRICS_URL.default, self.port_offset)
        return f"{base}/metrics"

    @property
    def frozen_map(self) -> Path:
        """The copy of the map that the processes read."""
        return self.run / "map.json"

    @property
    def metrics(self) -> Path:
        """Where gateway processes share their counters. They map the files, and a full disk
        would kill them, so the folder is in memory if there is such a place and the name is
        free."""
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

    def check_writable(self) -> None:
        """Raises StackError if nothing can be written in the run directory."""
        with self.writing():
            tempfile.TemporaryFile(dir=self._make_folder("logs")).close()

    def write(self, frozen_map: str) -> None:
        """Fills the run directory with configuration and the map's copy. Raises StackError."""
        with self.writing():
            for folder in (
                *("nginx/temp", "nginx/logs", "torchserve/store", "torchserve/tmp"),
                "logs",
            ):
                self._make_folder(folder)
            self.write_configuration()
            statefiles.write(self.frozen_map, frozen_map)
            state = asdict(self) | {"run": str(self.run), "map": str(self.map)}
            statefiles.write(self.run / _STATE, json.dumps(state))

    def _make_folder(self, name: str) -> Path:
        folder = self.run / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raises StackError with what to do where the run directory cannot be written."""
        try:
            yield
        except OSError as error:
            raise StackError(
                f"{self.run} cannot be written: {error.strerror}. Mend that, or choose "
                f"another directory with --run-dir or {variables.RUN_DIR.name}."
            ) from error

    def write_configuration(self) -> None:
        """Copies the files that operators edit. Raises StackError."""
        with self.writing():
            self.write_nginx(self.run / "nginx")
            name = "config.properties"
            text = (ROOT / "torchserve_backend" / name).read_text("utf-8")
            moved = move_ports(text, self.port_offset)
            statefiles.write(self.run / "torchserve" / name, moved)
            for name in ("log4j2.xml", "metrics.yaml"):
                shutil.copy(ROOT / "torchserve_backend" / name, self.run / "torchserve")

    def write_nginx(self, folder: Path) -> Path:
        """Writes nginx's files, with TLS if wanted, and returns its main file."""
        folder.mkdir(exist_ok=True)
        main = folder / "nginx.conf"
        text = (ROOT / "nginx/nginx.conf").read_text("utf-8")
        if self.tls:
            text = re.sub(r"^.*# without TLS\n", "", text, flags=re.MULTILINE)
            text = text.replace("#tls ", "")
            for name, file in zip(_TLS_FILES, self.tls.split(","), strict=True):
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(file)
        statefiles.write(main, move_ports(text, self.port_offset))
        shutil.copy(ROOT / "nginx/tls.conf", folder)
        return main

    def environment(self, java_home: Path, nginx: Path) -> dict[str, str]:
        python = Path(sys.executable)
        bind = move_ports(variables.GATEWAY_BIND.default, self.port_offset)
        ours: dict[Variable, object] = {
            variables.ROOT: ROOT,
            variables.RUN_DIR: self.run,
            variables.PYTHON: python,
            variables.BIN: python.parent,
            variables.NGINX: nginx,
            variables.MAP: self.frozen_map,
            variables.KEY_FILE: self.key_file,
            variables.INFERENCE_URL: self.inference_url,
            variables.MANAGEMENT_URL: self.management_url,
            variables.METRICS_URL: self.metrics_url.removesuffix("/metrics"),
            variables.GATEWAY_BIND: bind,
        }
        if self.model:
            ours[variables.MODEL] = self.model
        return dict(os.environ) | {
            **{variable.name: str(value) for variable, value in ours.items()},
            "PROMETHEUS_MULTIPROC_DIR": str(self.metrics),
            "JAVA_HOME": str(java_home),
            "PYTHONUNBUFFERED": "1",
        }

    def find_leader(self, program: str) -> psutil.Process:
        """A running program's main process, as `deploy.launch` has recorded it."""
        record = statefiles.read(self.run / f"{program}.group")
        return psutil.Process(record["group"])

    def check_ports(self) -> None:
        """Raises StackError if another program listens on one of ours."""
        for port in _PORTS:
            if is_taken(port + self.port_offset):
                raise StackError(
                    f"Port {port + self.port_offset} is taken by another program. Stop it, "
                    "or move all ports with --port-offset."
                )


def move_ports(text: str, offset: int) -> str:
    """A configuration with all of a stack's ports moved."""
    return _PORT.sub(lambda match: str(int(match[1]) + offset), text)


def is_taken(port: int) -> bool:
    """Whether a program listens on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def read(run: Path) -> Stack | None:
    """The stack last started in this run directory; None if its state is unreadable."""
    match statefiles.read(run / _STATE):
        case {
            "map": str(map_path),
            "model": str() | None as model,
            "port_offset": int(port_offset),
            "tls": str() | None as tls,
        }:
            return Stack(run, Path(map_path), model, port_offset, tls)
    return None
