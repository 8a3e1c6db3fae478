"""Gunicorn's settings. Edit and run `make reload`. Values left out are Gunicorn's own."""

import gc
import os
from pathlib import Path
from typing import Any

from prometheus_client import multiprocess

from contract import variables
from contract.cpus import count_cpus
from gateway.cache.table import share
from gateway.settings import read_settings
from text.langid import load_model
from text.spelling import load_spelling

# Loopback only: clients ask nginx.
bind = variables.GATEWAY_BIND.read()

# Whether the models are in the gateway's own process.
_IS_EMBEDDED = os.environ.get("GATEWAY_BACKEND") == "embedded"

# One process for two CPUs that we may use: models and nginx need some as well. With models in
# it, one in all: each process would load models of its own, and get a part of every batch.
_MOST_USEFUL = 1 if _IS_EMBEDDED else max(1, count_cpus() // 2)
workers = int(os.environ.get("WEB_CONCURRENCY", _MOST_USEFUL))
# It is Gunicorn's gevent worker; only its own error pages are problem documents. With
# models in it, threads are not patched.
_WORKER = "EmbeddedWorker" if _IS_EMBEDDED else "ProblemWorker"
worker_class = f"gateway.http.worker.{_WORKER}"

# Greenlets are cheap and mostly wait for models. All 4096 requests that nginx lets in
# may come to one process, and each of nginx's workers keeps 1024 idle connections besides;
# these were requests once, so that there are not many more of them either.
worker_connections = 4096 + min(4096, 1024 * (os.cpu_count() or 1))

# Some clients put texts into URLs. nginx's limit is 64 KiB; without nginx the longest that
# Gunicorn can be told is 8,190 bytes, and 0 is no limit.
limit_request_line = 8190 if _IS_EMBEDDED else 0

# As nginx's: bursts of new connections wait, they are not refused.
backlog = 4096

# A worker that has not reported for so long is replaced. This is not a request's time limit
# (that is BABELGATE_TIMEOUT_S): a gevent worker reports while requests wait.
timeout = 60

# Longer than an upload may take, so that a reload drops none.
graceful_timeout = int(read_settings().upload_timeout_s) + 5

# nginx keeps its connections to us open; longer than its own 30 s, so that it closes first
# and never sends a request into a connection that is going away. Without nginx clients keep
# them open themselves, and a stop waits for those who do.
keepalive = 5 if _IS_EMBEDDED else 75

# nginx writes the access log, with times and request ids. Standard error is
# run/logs/gateway.log, where the stack has started us.
accesslog = None
errorlog = "-"
loglevel = "info"

# nginx alone says whether a request came by TLS. Gunicorn would refuse a client's
# X-Forwarded-SSL that says something else.
secure_scheme_headers = {"X-FORWARDED-PROTO": "https"}

# A control socket would be one more way in.
control_socket_disable = True


def on_starting(server: Any) -> None:
    """The workers share the model by which languages are identified, and the memory for
    translated sentences. Metrics of the last life must not be added to this one's."""
    load_model()
    load_spelling()
    share(read_settings().cache_bytes)
    given = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if given:
        folder = Path(given)
        # It is emptied, not removed: in /dev/shm another user could take its name.
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()


def post_worker_init(worker: Any) -> None:
    """Thousands of requests may wait, each with some hundred objects. Python looks through
    all that live whenever 700 more do, which took a fifth of the CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def worker_exit(server: Any, worker: Any) -> None:
    """Write the usage of keys, and what was counted, before the process ends."""
    app = getattr(worker, "wsgi", None)  # none where it could not be made
    if app:
        app.access.close()
        app.load_shedder.telemetry.write()


def child_exit(server: Any, worker: Any) -> None:
    """A worker's gauges end with it; its counters stay in the sum."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
