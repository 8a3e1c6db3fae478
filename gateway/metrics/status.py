"""The readiness of languages and tasks, their gauges at each scrape, and their running totals
over all processes, from the registry that `GET /metrics` shows and from the workers' own
counters.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import requests
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from catalog import Catalog, Model
from contract.tasks import PATHS, TRANSLATION
from gateway.admission import Admission
from gateway.backends.backend import Backend
from gateway.metrics.registry import BUCKETS, Telemetry

_TIMEOUT_S = 2.0
#: The time for which figures are good: several people may look at them.
_FRESH_S = 1.0
#: The most memory and time that somebody else's page may take.
_MOST_BYTES = 4 << 20
#: The part that all names of our counters share.
_OURS = "babelgate"
#: The buckets of the histograms, and the labels that say what they are about.
_BUCKETS = {
    f"{name}_bucket": label
    for name, label in (
        ("babelgate_translation_seconds", "target"),
        ("babelgate_request_seconds", "route"),
    )
}


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
    """Find the reasons why languages and tasks are not ready, where they are known."""
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


@dataclass(frozen=True)
class Served:
    """A language or another task: its model's state, and what was counted since the start."""

    model: Model
    language: str | None
    is_ready: bool
    batch_size: int | None
    #: Rows that wait in the gateway, and in the model's own queue.
    waiting_rows: int
    queued_rows: int
    requests: int
    #: Answers that the service is to blame for: 429 and 5xx.
    errors: int
    #: Rows and batches that reached the model's workers; None where nobody counts them.
    rows: int | None
    batches: int | None
    #: Requests that took at most as long as each of `BUCKETS`, and all of them.
    latency: tuple[int, ...]


@dataclass(frozen=True)
class Look:
    """Every language in the map's order, then every other task, at a time of the monotonic
    clock."""

    at_s: float
    served: tuple[Served, ...]


@dataclass
class _Totals:
    """Counts by what they are about: a language, or the route of a task."""

    requests: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    latency: dict[str, dict[float, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    #: By model.
    rows: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)


class Figures:
    """The figures of `GET /status`. `metrics_url` is the page with the workers' counters,
    if there is one with all of them."""

    def __init__(
        self,
        catalog: Catalog,
        admission: Admission,
        telemetry: Telemetry,
        metrics_url: str | None,
    ) -> None:
        self._catalog = catalog
        self._admission = admission
        self._telemetry = telemetry
        self._metrics_url = metrics_url
        self._lock = threading.Lock()
        self._seen = Look(float("-inf"), ())

    def read(self) -> Look:
        """The last look, if it is fresh, or a new one."""
        with self._lock:  # one looks, all others use what it has seen
            now = time.monotonic()
            if now >= self._seen.at_s + _FRESH_S:
                self._seen = Look(now, tuple(self._list_served()))
            return self._seen

    def render(self) -> bytes:
        """Write the page of `GET /metrics`."""
        return self._telemetry.render(States(self._catalog, self._admission))

    def _list_served(self) -> Iterator[Served]:
        totals = _Totals()
        _add_up(self._telemetry.collect(), totals)
        _add_up(self._ask_workers(), totals)
        states = self._admission.backend.states([m.name for m in self._catalog.models])
        waiting = self._admission.count_waiting()
        for (task, language), model in self._catalog.routes.items():
            name = language if task == TRANSLATION else PATHS[task]
            state, latency = states[model.name], totals.latency[name]
            yield Served(
                model=model,
                language=language or None,
                is_ready=bool(state and state.is_ready),
                batch_size=state.batch_size if state else None,
                waiting_rows=int(waiting.get(model.name, 0)),
                queued_rows=state.queued_rows if state else 0,
                requests=totals.requests[name],
                errors=totals.errors[name],
                rows=totals.rows.get(model.name),
                batches=totals.batches.get(model.name),
                latency=tuple(
                    latency.get(bound, 0) for bound in (*BUCKETS, float("inf"))
                ),
            )

    def _ask_workers(self) -> Iterable[Metric]:
        """The workers' counters; none if nobody answers."""
        if not self._metrics_url:
            return ()
        try:
            answer = requests.get(f"{self._metrics_url}/metrics", timeout=_TIMEOUT_S)
            answer.raise_for_status()
            if len(answer.content) > _MOST_BYTES:
                return ()
            # Ray's page has hundreds of lines for each of ours, and is slow to read.
            lines = (line for line in answer.text.splitlines() if _OURS in line.lower())
            return list(text_string_to_metric_families("\n".join(lines)))
        except (requests.RequestException, ValueError):
            return ()


def _add_up(families: Iterable[Metric], totals: _Totals) -> None:
    for sample in (sample for family in families for sample in family.samples):
        labels, value = sample.labels, int(sample.value)
        # TorchServe's counters have names without the ending that the library gives them.
        # Ray writes them in lower case, behind its own name.
        match sample.name.lower().removeprefix("ray_").removesuffix("_total"):
            case "babelgate_translation_requests":
                _count(totals, labels["target"], labels["status"], value)
            case "babelgate_requests":
                _count(totals, labels["route"], labels["status"], value)
            case name if name in _BUCKETS:
                totals.latency[labels[_BUCKETS[name]]][float(labels["le"])] = value
            case "babelgaterows":
                totals.rows[labels["ModelName"]] += value
            case "babelgatebatches":
                totals.batches[labels["ModelName"]] += value


def _count(totals: _Totals, name: str, status: str, value: int) -> None:
    totals.requests[name] += value
    if status == "429" or status.startswith("5"):
        totals.errors[name] += value
