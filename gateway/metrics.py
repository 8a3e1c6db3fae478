"""The gateway's Prometheus metrics, summed over Gunicorn's workers, and the readiness of
languages and tasks. User text, keys and free-form values never become labels.
"""

import collections
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import requests
from flask import Response
from gevent import spawn_later
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from typing_extensions import TypedDict

from catalog import Catalog
from contract import variables
from contract.tasks import PATHS, TRANSLATION
from gateway.admission.control import Admission
from gateway.backends.backend import ModelState
from gateway.http.message import TRANSLATING
from gateway.http.request import GatewayRequest, read_request_id, read_trace

#: A quantile is as exact as its bucket is narrow. From 50 ms to 3 s, where service levels are
#: promised, a bucket's end is at most 1.5 times its start.
BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5,
    0.75, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120,
)  # fmt: skip

#: The target of a request that names no served one.
NO_TARGET = "none"
#: The headers that explain an answer.
_EXPLAINED = {"model": "X-Babelgate-Model", "timing": "Server-Timing"}
#: Shown as 0 from the start: a count that first appears with an error shows no increase.
_STATUSES = (200, 429, 500, 503, 504)
#: The counters and histograms that add up to totals, each with the label of its subject.
#: Those of TorchServe lack the ending that the library adds to names; Ray writes them in lower
#: case with its own prefix.
_COUNTERS = {
    "babelgate_translation_requests": "target",
    "babelgate_requests": "route",
    "babelgate_translation_seconds": "target",
    "babelgate_request_seconds": "route",
    "babelgaterows": "ModelName",
    "babelgatebatches": "ModelName",
}
_CHARACTERS = "babelgate_characters_total"
#: The limits of the page with the workers' counters, in seconds and bytes, and the part of a
#: name that marks our counters.
_TIMEOUT_S, _MOST_BYTES, _OURS = 2.0, 4 << 20, "babelgate"
#: Seconds that counts may wait in memory, until they are written in one pass.
_WRITE_S = 0.05
#: Seconds for which figures are reused, as several clients may request them.
_FRESH_S = 1.0


class Telemetry:
    """The metrics of one process. Counts wait in memory for a moment, because each write to
    the files that other processes read costs the request time."""

    def __init__(
        self, languages: Sequence[str] = (), tasks: Iterable[str] = ()
    ) -> None:
        self.registry = CollectorRegistry()
        self.tracer = variables.find_tracer()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=BUCKETS)
        self.requests = counter(
            "babelgate_requests", "Answers, by route and status.", ["route", "status"]
        )
        self.seconds = histogram(
            "babelgate_request_seconds",
            "Seconds from a request's arrival to its answer, by route.",
            ["route"],
        )
        self.translations = counter(
            "babelgate_translation_requests",
            "Requests to translate, by target language and status.",
            ["target", "status"],
        )
        self.translation_seconds = histogram(
            "babelgate_translation_seconds",
            "Seconds from a request to translate to its answer, by target language.",
            ["target"],
        )
        self.texts = counter(
            "babelgate_texts", "Texts translated, by target.", ["target"]
        )
        self.characters = counter(
            _CHARACTERS, "Characters translated, by target.", ["target"]
        )
        self.frames = counter(
            "babelgate_frames",
            "Images, and frames of arrays, that were answered, by task.",
            ["task"],
        )
        self.placeholders = counter(
            "babelgate_marked_sentences",
            "Sentences with placeholders or tags, by whether the model has kept them all.",
            ["outcome"],
        )
        self.cached = counter(
            "babelgate_cached_rows",
            "Sentences found in the cache (hit), already being translated for another request "
            "(shared), or translated (miss).",
            ["outcome"],
        )
        #: Caches labelled metrics, which prometheus_client looks up under a lock, as text.
        self._find = cache(lambda metric, *labels: metric.labels(*labels))
        #: Amounts and seconds that wait to be written, by metrics and labels.
        self._amounts: collections.Counter[tuple[Any, ...]] = collections.Counter()
        self._times: list[tuple[Any, ...]] = []
        #: When the next write is due.
        self._write_at = 0.0
        for target, status in product((*languages, NO_TARGET), _STATUSES):
            self.translations.labels(target, status)
        for task in tasks:
            self.frames.labels(task)

    def count_answer(
        self, route: str, target: str | None, status: int, seconds: float
    ) -> None:
        """Count and time an answer, with a target also as a translation request's."""
        self.count(self.requests, route, status)
        self._times.append((self.seconds, route, seconds))
        if target is not None:
            self.count(self.translations, target, status)
            self._times.append((self.translation_seconds, target, seconds))

    def write(self) -> None:
        """Write the counts to the files that other processes read."""
        amounts, self._amounts = self._amounts, collections.Counter()
        times, self._times = self._times, []
        for key, amount in amounts.items():
            self._find(*key).inc(amount)
        for *place, seconds in times:
            self._find(*place).observe(seconds)

    def count(self, counter: Counter, *labels: object, amount: int = 1) -> None:
        """Increase a counter under these labels."""
        now = time.monotonic()
        if now > self._write_at:  # in a notebook, the last one's thread may run no loop
            self._write_at = now + _WRITE_S
            spawn_later(_WRITE_S, self.write)
        self._amounts[counter, *labels] += amount

    def sum_characters(self) -> int:
        """Return the characters that all worker processes have translated since the start."""
        families = self.add_up().collect()
        samples = (sample for family in families for sample in family.samples)
        return int(sum(each.value for each in samples if each.name == _CHARACTERS))

    def add_up(self) -> CollectorRegistry:
        """Return the metrics of all worker processes."""
        self.write()
        page = CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            # Until the other processes have written their counts. The caller may hold a lock:
            # if gevent patches nothing, another greenlet that wants it would block them both.
            time.sleep(2 * _WRITE_S)
            MultiProcessCollector(page)  # type: ignore[no-untyped-call]
        else:
            page.register(self.registry)
        return page


class Arrival:
    """The layer that sets a request's id, trace, start and time limit, and counts its answer.
    nginx assigns every request an id; the answer and each problem repeat it. Only a POST and a
    request in a client's trace have a span: a probe has none."""

    def __init__(self, telemetry: Telemetry, limit_s: float) -> None:
        self._telemetry, self._limit_s = telemetry, limit_s

    def before(self, request: GatewayRequest) -> None:
        request.started_at = time.perf_counter()
        request.id = read_request_id(request.environ)
        request.limit_s = self._limit_s
        request.trace = read_trace(request.environ.get("HTTP_TRACEPARENT", ""))
        tracer = self._telemetry.tracer
        if tracer and (request.trace or request.method == "POST"):
            request.span, request.trace = tracer.start(request.trace)

    def after(self, request: GatewayRequest, response: Response) -> None:
        response.headers.add("X-Request-ID", request.id)
        rule, status = request.url_rule, response.status_code
        seconds = time.perf_counter() - request.started_at
        if request.timing and not response.is_streamed:  # a stream's work goes on
            for name, value in request.timing.explain().items():
                response.headers.add(_EXPLAINED[name], value)
        route = rule.rule if rule else "none"
        tracer = self._telemetry.tracer
        target = request.target
        if target is None and route in TRANSLATING and request.operation.task:
            target = NO_TARGET  # the page at `/` is no task
        self._telemetry.count_answer(route, target, status, seconds)
        if tracer and request.span:
            facts = {
                "http.request.method": request.method,
                "http.route": route,
                "babelgate.request_id": request.id,
                "babelgate.target": target or NO_TARGET,
            }
            tracer.describe(request.span, status, facts)
            response.call_on_close(request.span.end)  # a stream is not finished yet


@dataclass(frozen=True)
class ServedReadiness:
    """Whether each language, in the map's order, and each task of the map is ready, and known
    reasons why one is not. Translation is ready once all languages are."""

    languages: dict[str, bool]
    tasks: dict[str, bool]
    reasons: dict[str, str]
    #: The known states of models.
    states: dict[str, ModelState]


class ServedStatus(TypedDict):
    """A language; without one, a task or a model that is only a fallback. Counts start with
    the gateway; rows and batches are those that reached the model's workers. `latency` counts
    the requests that took at most each of `bounds_s`, and at the end all of them."""

    task: str
    language: str | None
    model: str
    device: str
    workers: int
    ready: bool
    batch_size: int | None
    waiting_rows: int
    queued_rows: int
    requests: int
    #: Answers with errors of the service: 429 and 5xx.
    errors: int
    #: None if the backend does not count them.
    rows: int | None
    batches: int | None
    latency: list[int]


#: Counts of requests, errors, rows, batches, or of requests within a bound in seconds, by
#: subject: a language, the route of a task, or a model.
_Totals = collections.Counter[tuple[str | float, str]]


class Figures(Collector):
    """The figures of `GET /status` and `GET /metrics`. `metrics_url` is the page with the
    workers' counters, if there is one with all of them."""

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
        self._session = requests.Session()
        self._session.trust_env = False  # our own workers need no proxy
        self._lock = threading.Lock()
        self._seen: tuple[float, list[ServedStatus]] = (-math.inf, [])

    def read(self) -> tuple[float, list[ServedStatus]]:
        """Return the time of the figures by the monotonic clock, and those of every language in
        the map's order, then of every other task, then of fallbacks."""
        with self._lock:  # one request computes them for all
            now = time.monotonic()
            if now >= self._seen[0] + _FRESH_S:
                self._seen = now, list(self._list_served())
            return self._seen

    def find_readiness(self) -> ServedReadiness:
        """Find out which languages and tasks have a READY worker."""
        catalog, backend = self._catalog, self._admission.backend
        found = backend.states([model.name for model in catalog.models])
        states = {name: state for name, state in found.items() if state}
        ready = {name for name, state in states.items() if state.is_ready}
        languages = {
            code: catalog.route(TRANSLATION, code).name in ready
            for code in catalog.languages
        }
        translation = {TRANSLATION: all(languages.values())} if languages else {}
        others = {task: model.name in ready for task, model in catalog.tasks.items()}
        reasons = {
            served or task: state.reason
            for (task, served), model in catalog.routes.items()
            if (state := states.get(model.name)) and state.reason
        }
        return ServedReadiness(languages, translation | others, reasons, states)

    def render(self) -> bytes:
        """Return the page of `GET /metrics`, in Prometheus' text format."""
        page = self._telemetry.add_up()
        page.register(self)
        return generate_latest(page)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges that are computed for each scrape."""
        served = self.find_readiness()
        states = served.states.items()
        for name, meaning, label, values in (
            (
                "babelgate_language_ready",
                "1 if a worker is READY for the language, otherwise 0.",
                "target",
                served.languages,
            ),
            (
                "babelgate_task_ready",
                "1 if everything in the map for the task is READY, otherwise 0.",
                "task",
                served.tasks,
            ),
            (
                "babelgate_waiting_rows",
                "Rows that are waiting in the gateway.",
                "model",
                self._admission.count_waiting(),
            ),
            (
                "babelgate_queued_rows",
                "Rows in a model's queue, behind the gateway's.",
                "model",
                {name: state.queued_rows for name, state in states},
            ),
            (
                "babelgate_batch_size",
                "Rows in a full batch.",
                "model",
                {name: state.batch_size for name, state in states},
            ),
        ):
            gauge = GaugeMetricFamily(name, meaning, labels=[label])
            for labelled, value in values.items():
                gauge.add_metric([labelled], value)
            yield gauge

    def _list_served(self) -> Iterator[ServedStatus]:
        totals = _add_up([*self._telemetry.add_up().collect(), *self._ask_workers()])
        states = self.find_readiness().states
        waiting = self._admission.count_waiting()
        spares = (((TRANSLATION, ""), model) for model in self._catalog.spares)
        for (task, language), model in (*self._catalog.routes.items(), *spares):
            name = language if task == TRANSLATION else PATHS[task]
            state = states.get(model.name)
            yield {
                "task": task,
                "language": language or None,
                "model": model.name,
                "device": model.device,
                "workers": model.workers,
                "ready": bool(state and state.is_ready),
                "batch_size": state.batch_size if state else None,
                "waiting_rows": int(waiting.get(model.name, 0)),
                "queued_rows": state.queued_rows if state else 0,
                "requests": totals["requests", name],
                "errors": totals["errors", name],
                "rows": totals.get(("babelgaterows", model.name)),
                "batches": totals.get(("babelgatebatches", model.name)),
                "latency": [totals[bound, name] for bound in (*BUCKETS, math.inf)],
            }

    def _ask_workers(self) -> Iterable[Metric]:
        """Return the workers' counters; none if the request fails."""
        if not self._metrics_url:
            return ()
        try:
            page = f"{self._metrics_url}/metrics"
            answer = self._session.get(page, timeout=_TIMEOUT_S)
            answer.raise_for_status()
            if len(answer.content) > _MOST_BYTES:
                return ()
            # Ray's page has hundreds of lines for each of ours, and is slow to parse.
            lines = (line for line in answer.text.splitlines() if _OURS in line.lower())
            return list(text_string_to_metric_families("\n".join(lines)))
        except (requests.RequestException, ValueError):
            return ()


def _add_up(families: Iterable[Metric]) -> _Totals:
    totals: _Totals = collections.Counter()
    for sample in (sample for family in families for sample in family.samples):
        name = sample.name.lower().removeprefix("ray_")
        name = name.removesuffix("_total").removesuffix("_bucket")
        if name not in _COUNTERS:
            continue
        labels = sample.labels
        about = labels[_COUNTERS[name]]
        status = labels.get("status", "")
        bound = float(labels["le"]) if "le" in labels else None
        kind = "requests" if status else bound or name
        totals[kind, about] += int(sample.value)
        if status == "429" or status.startswith("5"):
            totals["errors", about] += int(sample.value)
    return totals
