"""Prometheus gauges that are read at each scrape: the state of languages, tasks and
queues.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from catalog import Catalog
from contract.tasks import TRANSLATION
from gateway.admission import Admission
from gateway.backends.backend import Backend


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


def find_reasons(catalog: Catalog, backend: Backend) -> dict[str, str]:
    """Why languages and tasks are not ready, where that is known."""
    states = backend.states([model.name for model in catalog.models])
    return {
        served: state.reason
        for model in catalog.models
        if (state := states[model.name]) and state.reason
        for served in model.serves
    }


class States(Collector):
    """The state of all models, as the backend and the gateway's own queue tell it."""

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
                queued.add_metric([name], state.queued_rows)
                batch_size.add_metric([name], state.batch_size)
        yield from (queued, batch_size)
