"""The environment variables that several programs share. Each is declared once, with its
default and its sentence in `docs/configuration.md`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Variable:
    """An environment variable."""

    name: str
    meaning: str
    #: Relative paths start at the repository.
    default: str = ""

    def read(self) -> str:
        """What it is set to, else its default."""
        return os.environ.get(self.name) or self.default


MAP = Variable(
    "BABELGATE_MAP",
    "The map. `make up` sets this one to its copy, `run/map.json`; use `CONFIG=`.",
    "torchserve_backend/setup_config.json",
)
MODEL = Variable(
    "BABELGATE_MODEL",
    "A model directory or hub name to use instead of the map's. `make up MODEL=…` sets it.",
)
INFERENCE_URL = Variable(
    "BABELGATE_INFERENCE_URL",
    "TorchServe's inference API. `make up` sets this one.",
    "http://127.0.0.1:9999",
)
MANAGEMENT_URL = Variable(
    "BABELGATE_MANAGEMENT_URL",
    "TorchServe's management API. `make up` sets this one.",
    "http://127.0.0.1:8081",
)
KEY_FILE = Variable(
    "BABELGATE_KEY_FILE",
    "Where TorchServe writes its keys. `make up` sets this one.",
    "run/torchserve/key_file.json",
)
CACHE = Variable(
    "BABELGATE_CACHE",
    "Where downloaded and converted models are kept. Default: `babelgate` in "
    "`XDG_CACHE_HOME`, else `~/.cache/babelgate`.",
)
STORE = Variable("BABELGATE_STORE", "TorchServe's model store.", "run/torchserve/store")
RUN_DIR = Variable(
    "BABELGATE_RUN_DIR", "The run directory: logs, sockets, archives, keys.", "run"
)
CLIENT_KEY = Variable(
    "BABELGATE_CLIENT_KEY",
    "The [key](keys.md) that our own clients send, where the stack requires one.",
)
ROOT = Variable("BABELGATE_ROOT", "The repository.")
PYTHON = Variable("BABELGATE_PYTHON", "The Python of `.venv`.")
BIN = Variable("BABELGATE_BIN", "The folder of the programs of `.venv`.")
NGINX = Variable("BABELGATE_NGINX", "nginx's program file.")
GATEWAY_BIND = Variable(
    "BABELGATE_GATEWAY_BIND",
    "The address that Gunicorn listens on.",
    "127.0.0.1:8888",
)

#: Operators may set them.
SETTINGS = (
    *(MAP, MODEL, INFERENCE_URL, MANAGEMENT_URL, KEY_FILE),
    *(CACHE, STORE, RUN_DIR, CLIENT_KEY),
)
#: `make up` alone sets them.
INTERNAL = (ROOT, PYTHON, BIN, NGINX, GATEWAY_BIND)
#: What a stack of an earlier version has given its programs; the gateway warns of it.
OLD_RUN = "BABELGATE_RUN"
#: The names of the run directory, the one that counts first.
RUN_NAMES = (RUN_DIR.name, OLD_RUN)


def find_run() -> Path | None:
    """The run directory of the stack that has started this process; None without one."""
    found = next(filter(None, map(os.environ.get, RUN_NAMES)), None)
    return Path(found) if found else None
