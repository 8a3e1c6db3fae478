"""Gunicorn's settings. Edit and run `make reload`. Missing values are Gunicorn's defaults."""

import gc
import os
from pathlib import Path
from typing import Any

from prometheus_client import values

from contract import variables
from contract.cpus import count_cpus
from gateway.cache.table import share
from gateway.settings import read_settings
from gateway.shared_memory import take_place
from text.langid import load_model
from text.spelling import load_spelling

# Loopback only: clients connect to nginx.
bind = variables.GATEWAY_BIND.read()

# Whether the models run in the gateway's own process.
_IS_EMBEDDED = os.environ.get("GATEWAY_BACKEND") == "embedded"

# The folder of the processes' counters; empty without a stack.
_COUNTERS = variables.PROMETHEUS.given

# One process for every two CPUs that we may use: models and nginx need the others. With
# embedded models, one in all: each process would load its own models and split every batch.
_MOST_USEFUL = 1 if _IS_EMBEDDED else max(1, count_cpus() // 2)
workers = int(os.environ.get("WEB_CONCURRENCY", _MOST_USEFUL))
# A subclass of Gunicorn's gevent worker. With embedded models, threads are not patched.
_WORKER = "EmbeddedWorker" if _IS_EMBEDDED else "ProblemWorker"
worker_class = f"gateway.http.worker.{_WORKER}"

# Greenlets are cheap and mostly wait for models. One process may get all 4096 requests that
# nginx admits. Each of nginx's workers also keeps up to 1024 idle connections; each of these
# once had a request, so there are at most about 4096 of them too.
worker_connections = 4096 + min(4096, 1024 * (os.cpu_count() or 1))

# Some clients put texts into URLs. nginx's limit is 64 KiB; without nginx, the largest limit
# that Gunicorn accepts is 8,190 bytes. 0 means no limit.
limit_request_line = 8190 if _IS_EMBEDDED else 0

# The same as nginx's: bursts of new connections wait instead of being refused.
backlog = 4096

# A worker that sends no heartbeat for this long is replaced. This does not limit requests
# (BABELGATE_TIMEOUT_S does): a gevent worker sends heartbeats while requests wait.
timeout = 60

# Longer than the time limits of requests, so that a reload drops none.
graceful_timeout = int(read_settings().longest_s) + 5

# Longer than the 30 s for which nginx keeps its connections to us open, so that nginx closes
# first and never sends a request into a closing connection. Without nginx, clients keep
# connections open, and a stop waits for them.
keepalive = 5 if _IS_EMBEDDED else 75

# nginx writes the access log. In a stack, standard error is run/logs/gateway.log.
accesslog = None
errorlog = "-"
loglevel = "info"

# Only nginx decides whether a request used TLS. By default, Gunicorn refuses a request whose
# X-Forwarded-SSL contradicts it.
secure_scheme_headers = {"X-FORWARDED-PROTO": "https"}

# A control socket would add an attack surface.
control_socket_disable = True


def on_starting(server: Any) -> None:
    """Load the model that identifies languages and open the sentence cache, which workers
    share. Delete the metrics of the previous run, which must not be added to this one's."""
    load_model()
    load_spelling()
    share(read_settings().cache_bytes)
    if _COUNTERS:
        folder = Path(_COUNTERS)
        # Empty the folder, do not remove it: in /dev/shm another user could claim its name.
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()


def post_fork(server: Any, worker: Any) -> None:
    """Continue the counters of an ended process, if there is one: its files would remain."""
    if _COUNTERS and (taken := take_place(Path(_COUNTERS))):
        values.ValueClass = values.MultiProcessValue(lambda: taken[1])  # type: ignore[no-untyped-call]


def post_worker_init(worker: Any) -> None:
    """Make garbage collection rare. Thousands of requests may wait, each with a few hundred
    objects; a collection for every 700 new objects used a fifth of the CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def worker_exit(server: Any, worker: Any) -> None:
    """Write the usage of keys and the metrics before the process ends."""
    app = getattr(worker, "wsgi", None)  # None if it could not be created
    if app:
        app.access.close()
        app.load_shedder.telemetry.write()
