"""What the gateway tells operators: Prometheus metrics that are right across Gunicorn's
workers. No user text, no key and no free-form value becomes a label.
"""

from __future__ import annotations

import os
import time

from flask import Flask, Response, g, request
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Telemetry:
    """The metrics of one process; `render` adds up those of all of them."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "babelgate_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "babelgate_request_seconds",
            "Seconds from a request's arrival to its answer, by route.",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.texts = Counter(
            "babelgate_texts",
            "Texts translated, by target language.",
            ["target"],
            registry=self._registry,
        )
        self.characters = Counter(
            "babelgate_characters",
            "Characters translated, by target language.",
            ["target"],
            registry=self._registry,
        )
        self.marked = Counter(
            "babelgate_marked_sentences",
            "Sentences with placeholders or tags, by whether the model has kept them all.",
            ["outcome"],
            registry=self._registry,
        )

    def count_marked(self, *, is_kept: bool) -> None:
        """Counts a sentence with marks in it."""
        self.marked.labels("kept" if is_kept else "lost").inc()

    def count_texts(self, target: str, texts: tuple[str, ...]) -> None:
        """Counts what has been translated into a served language."""
        self.texts.labels(target).inc(len(texts))
        self.characters.labels(target).inc(sum(map(len, texts)))

    def render(self) -> bytes:
        """The metrics of all worker processes in Prometheus' text format."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def register_telemetry(app: Flask, telemetry: Telemetry) -> None:
    """Times and counts every request and serves `GET /metrics`."""

    @app.before_request
    def start_clock() -> None:
        g.started = time.perf_counter()

    @app.after_request
    def count_request(response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else "none"
        telemetry.requests.labels(route, response.status_code).inc()
        telemetry.seconds.labels(route).observe(time.perf_counter() - g.started)
        return response

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(telemetry.render(), content_type=CONTENT_TYPE_LATEST)
