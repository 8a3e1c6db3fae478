"""Where a stack's files lie and on which ports it listens: the operator's configuration
files are copied into the run directory, with the ports moved where that is asked for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]

DOOR, GATEWAY, INFERENCE, MANAGEMENT, METRICS = 7777, 8888, 9999, 8081, 8082
_PORTS = (DOOR, GATEWAY, INFERENCE, MANAGEMENT, METRICS, 7070, 7071)
_PORT = re.compile(r"\b(" + "|".join(map(str, _PORTS)) + r")\b")
_STATE = "stack.json"
#: What nginx/tls.conf calls the certificate and its key.
_TLS_FILES = ("certificate.pem", "key.pem")


class StackError(Exception):
    """The stack cannot be started; the message says what to do."""


@dataclass(frozen=True)
class Stack:
    """One stack: its run directory, its map, its model, and by how much its ports are moved."""

    run: Path
    map: Path
    model: str | None = None
    port_offset: int = 0
    #: Files of a certificate and its key, with a comma between.
    tls: str | None = None

    @property
    def url(self) -> str:
        """Where clients send their requests."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{DOOR + self.port_offset}"

    @property
    def inference_url(self) -> str:
        """TorchServe's inference API."""
        return f"http://127.0.0.1:{INFERENCE + self.port_offset}"

    @property
    def management_url(self) -> str:
        """TorchServe's management API."""
        return f"http://127.0.0.1:{MANAGEMENT + self.port_offset}"

    @property
    def metrics_url(self) -> str:
        """TorchServe's metrics."""
        return f"http://127.0.0.1:{METRICS + self.port_offset}/metrics"

    @property
    def key_file(self) -> Path:
        """Where TorchServe writes its keys."""
        return self.run / "torchserve" / "key_file.json"

    @property
    def store(self) -> Path:
        """TorchServe's model store."""
        return self.run / "torchserve" / "store"

    @property
    def socket(self) -> Path:
        """Where supervisord listens."""
        return self.run / "supervisor.sock"

    def log(self, program: str) -> Path:
        """The log of one program."""
        return self.run / "logs" / f"{program}.log"

    def write(self) -> None:
        """Lays out the run directory, configuration files included."""
        for folder in (
            "logs",
            "nginx/temp",
            "nginx/logs",
            "torchserve/store",
            "torchserve/tmp",
        ):
            (self.run / folder).mkdir(parents=True, exist_ok=True)
        self.write_configuration()
        state = asdict(self) | {"run": str(self.run), "map": str(self.map)}
        (self.run / _STATE).write_text(json.dumps(state))

    def write_configuration(self) -> None:
        """Copies the files that an operator edits to where their programs read them."""
        self.write_nginx(self.run / "nginx")
        self._copy(
            "torchserve_backend/config.properties", "torchserve/config.properties"
        )
        for name in ("log4j2.xml", "metrics.yaml"):
            shutil.copy(ROOT / "torchserve_backend" / name, self.run / "torchserve")

    def write_nginx(self, folder: Path) -> Path:
        """nginx's files, with TLS where that is wanted; returns the one that it starts from."""
        folder.mkdir(exist_ok=True)
        main = folder / "nginx.conf"
        text = (ROOT / "nginx/nginx.conf").read_text("utf-8")
        if self.tls:
            text = re.sub(r"^.*# without TLS\n", "", text, flags=re.MULTILINE)
            text = text.replace("#tls ", "")
            for name, file in zip(_TLS_FILES, self.tls.split(","), strict=True):
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(file)
        main.write_text(move_ports(text, self.port_offset), "utf-8")
        shutil.copy(ROOT / "nginx/tls.conf", folder)
        return main

    def _copy(self, source: str, target: str) -> None:
        text = (ROOT / source).read_text("utf-8")
        (self.run / target).write_text(move_ports(text, self.port_offset), "utf-8")

    def environment(self, java_home: Path, nginx: Path) -> dict[str, str]:
        """What the programs find in their environment."""
        python = Path(sys.executable)
        added = {
            "BABELGATE_ROOT": str(ROOT),
            "BABELGATE_RUN": str(self.run),
            "BABELGATE_PYTHON": str(python),
            "BABELGATE_BIN": str(python.parent),
            "BABELGATE_NGINX": str(nginx),
            "BABELGATE_MAP": str(self.map),
            "BABELGATE_KEY_FILE": str(self.key_file),
            "BABELGATE_INFERENCE_URL": self.inference_url,
            "BABELGATE_MANAGEMENT_URL": self.management_url,
            "BABELGATE_GATEWAY_BIND": f"127.0.0.1:{GATEWAY + self.port_offset}",
            "PROMETHEUS_MULTIPROC_DIR": str(self.run / "metrics"),
            "JAVA_HOME": str(java_home),
            "PYTHONUNBUFFERED": "1",
        }
        if self.model:
            added["BABELGATE_MODEL"] = self.model
        return dict(os.environ) | added

    def find_leader(self, program: str) -> psutil.Process:
        """A running program's main process, as `deploy.launch` has recorded it."""
        record = json.loads((self.run / f"{program}.group").read_text())
        return psutil.Process(record["group"])

    def check_ports(self) -> None:
        """Raises StackError where another program listens on one of ours."""
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
    """The stack that was last started in this run directory."""
    try:
        state = json.loads((run / _STATE).read_text())
    except (OSError, ValueError):
        return None
    return Stack(
        run,
        Path(state["map"]),
        state["model"],
        state["port_offset"],
        state.get("tls"),
    )
