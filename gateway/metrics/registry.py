"""The gateway's Prometheus metrics, summed over Gunicorn's workers. User text, keys and
free-form values never become labels.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

from flask import Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from gateway.http.middleware import Middleware
from gateway.http.request import GatewayRequest

#: A quantile is known as exactly as the bucket it falls into is narrow: half as much again
#: at most where service levels are promised, from 50 ms to 3 s.
BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
    *(0.75, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120),
)

#: The target of a request that does not get as far as naming a served one.
NO_TARGET = "none"
#: Shown from the start, at 0: a count that appears with its first error has not risen.
_STATUSES = (200, 429, 500, 503, 504)


class Telemetry:
    """The metrics of one process; `render` adds up those of all of them and looks up the
    collector's once."""

    def __init__(
        self, languages: Sequence[str] = (), tasks: Iterable[str] = ()
    ) -> None:
        self.registry = CollectorRegistry()
        #: The blueprints and paths that translate.
        self.routes: set[tuple[str | None, str]] = set()
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
            "babelgate_characters", "Characters translated, by target.", ["target"]
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
        self._find = cache(_find)
        self._show_zeros(languages, tasks)

    def _show_zeros(self, languages: Sequence[str], tasks: Iterable[str]) -> None:
        for target, status in product((*languages, NO_TARGET), _STATUSES):
            self.translations.labels(target, status)
        for task in tasks:
            self.frames.labels(task)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Counts and times an answer."""
        self._find(self.requests, route, status).inc()
        self._find(self.seconds, route).observe(seconds)

    def count_translation(self, target: str, status: int, seconds: float) -> None:
        """Counts and times the answer to a request to translate."""
        self._find(self.translations, target, status).inc()
        self._find(self.translation_seconds, target).observe(seconds)

    def count_placeholders(self, *, is_kept: bool) -> None:
        """Counts a sentence with placeholders in it."""
        self.placeholders.labels("kept" if is_kept else "lost").inc()

    def count_texts(self, target: str, texts: tuple[str, ...]) -> None:
        """Counts what has been translated into a served language."""
        self._find(self.texts, target).inc(len(texts))
        self._find(self.characters, target).inc(sum(map(len, texts)))

    def render(self, collector: Collector) -> bytes:
        """The metrics of all worker processes in Prometheus' text format."""
        page = self._add_up()
        page.register(collector)
        return generate_latest(page)

    def collect(self) -> Iterable[Metric]:
        """The metrics of all worker processes."""
        return self._add_up().collect()

    def _add_up(self) -> CollectorRegistry:
        page = CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            MultiProcessCollector(page)  # type: ignore[no-untyped-call]
        else:
            page.register(self.registry)
        return page


def _find(metric: Counter | Histogram, *labels: object) -> Any:
    """The metric with these labels, which prometheus_client looks up under a lock, as text."""
    return metric.labels(*labels)


class RequestMetrics(Middleware):
    """Times and counts every request, and those to translate by their targets."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def before(self, request: GatewayRequest) -> None:
        request.started_at = time.perf_counter()

    def after(self, request: GatewayRequest, response: Response) -> None:
        rule, status = request.url_rule, response.status_code
        seconds = time.perf_counter() - request.started_at
        self._telemetry.count_request(rule.rule if rule else "none", status, seconds)
        target = request.target
        if (
            target is None
            and (request.blueprint, request.path) in self._telemetry.routes
        ):
            target = NO_TARGET
        if target is not None:
            self._telemetry.count_translation(target, status, seconds)
