"""Prometheus gauges that are read at each scrape: the state of languages, tasks and
queues, and the memory of the stack's processes and GPUs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from contract import variables
from contract.tasks import TRANSLATION
from gateway.admission import Admission
from gateway.backend import Backend
from torchserve_backend.catalog import Catalog
from torchserve_backend.devices import measure_gpu_memory

#: TorchServe's children that hold the models are shown apart from it.
_TORCHSERVE, _JAVA, _WORKERS = "torchserve", "java", "workers"


def make_collectors(catalog: Catalog, admission: Admission) -> tuple[Collector, ...]:
    """All collectors; that of the processes only where `python -m deploy` has started us."""
    run = variables.find_run()
    processes = (_Processes(run),) if run else ()
    return (_States(catalog, admission), *processes, _Gpus())


def find_ready(catalog: Catalog, backend: Backend) -> dict[str, bool]:
    """Whether each language has a READY worker, in the map's order."""
    states = backend.states([model.name for model in catalog.models])
    routed = {code: catalog.route(TRANSLATION, code).name for code in catalog.languages}
    return {
        code: bool((state := states[name]) and state.is_ready)
        for code, name in routed.items()
    }


def find_ready_tasks(catalog: Catalog, backend: Backend) -> dict[str, bool]:
    """Whether each task of the map can be done now: translation into every language, the
    others where a worker is READY."""
    languages = find_ready(catalog, backend)
    states = backend.states([model.name for model in catalog.models])
    translation = {TRANSLATION: all(languages.values())} if languages else {}
    return translation | {
        task: bool((state := states[model.name]) and state.is_ready)
        for task, model in catalog.tasks.items()
    }


class _States(Collector):
    def __init__(self, catalog: Catalog, admission: Admission) -> None:
        self._catalog = catalog
        self._backend = admission.backend
        self._admission = admission

    def collect(self) -> Iterator[GaugeMetricFamily]:
        ready = GaugeMetricFamily(
            "babelgate_language_ready",
            "1 where a worker is READY for the language, otherwise 0.",
            labels=["target"],
        )
        for code, is_ready in find_ready(self._catalog, self._backend).items():
            ready.add_metric([code], is_ready)
        tasks = GaugeMetricFamily(
            "babelgate_task_ready",
            "1 where all that the map has of the task is READY, otherwise 0.",
            labels=["task"],
        )
        for task, is_ready in find_ready_tasks(self._catalog, self._backend).items():
            tasks.add_metric([task], is_ready)
        waiting = GaugeMetricFamily(
            "babelgate_waiting_rows",
            "Rows that wait in the gateway for their turn.",
            labels=["model"],
        )
        for name, rows in self._admission.count_waiting().items():
            waiting.add_metric([name], rows)
        yield from (ready, tasks, waiting, *self._collect_queues())

    def _collect_queues(self) -> Iterator[GaugeMetricFamily]:
        queued = GaugeMetricFamily(
            "babelgate_queued_rows",
            "Rows in a model's queue, behind the gateway's.",
            labels=["model"],
        )
        batch_size = GaugeMetricFamily(
            "babelgate_batch_size", "Rows that a full batch has.", labels=["model"]
        )
        names = [model.name for model in self._catalog.models]
        for name, state in self._backend.states(names).items():
            if state:
                queued.add_metric([name], state.pending_requests)
                batch_size.add_metric([name], state.batch_size)
        yield from (queued, batch_size)


class _Processes(Collector):
    """The process groups that `deploy.launch` has recorded in the run directory."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        memory = GaugeMetricFamily(
            "babelgate_memory_bytes",
            "Resident memory of a program's processes; shared pages count in each.",
            labels=["program"],
        )
        started = GaugeMetricFamily(
            "babelgate_start_time_seconds",
            "Unix time at which a program was started last.",
            labels=["program"],
        )
        programs: dict[int, str] = {}
        for record in sorted(self._run.glob("*.group")):
            with suppress(OSError, ValueError, LookupError, TypeError):  # torn
                launched = json.loads(record.read_text())
                group, since = int(launched["group"]), float(launched["since"])
                programs[group] = record.stem
                started.add_metric([record.stem], since)
        for program, size in _measure_memory(programs).items():
            memory.add_metric([program], size)
        yield from (memory, started)


def _measure_memory(programs: dict[int, str]) -> dict[str, int]:
    """Resident bytes by program, given the programs' process groups."""
    sizes: dict[str, int] = {}
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.Error):
            group = os.getpgid(process.pid)
            if group not in programs:
                continue
            is_worker = (
                programs[group] == _TORCHSERVE
                and process.pid != group
                and process.name() != _JAVA
            )
            program = _WORKERS if is_worker else programs[group]
            size = process.memory_info().rss
            sizes[program] = sizes.get(program, 0) + size
    return sizes


class _Gpus(Collector):
    def collect(self) -> Iterator[GaugeMetricFamily]:
        used = GaugeMetricFamily(
            "babelgate_gpu_memory_used_bytes",
            "Memory of a GPU that is taken, by whatever program.",
            labels=["gpu"],
        )
        total = GaugeMetricFamily(
            "babelgate_gpu_memory_bytes", "Memory that a GPU has.", labels=["gpu"]
        )
        for gpu in measure_gpu_memory():
            used.add_metric([gpu.index], gpu.used_bytes)
            total.add_metric([gpu.index], gpu.total_bytes)
        yield from (used, total)
