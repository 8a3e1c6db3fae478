"""The spans of this process, and their export to a collector. `variables.find_tracer` imports
this file only if a collector is configured: without one, OpenTelemetry is not needed."""

import atexit
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from contract import rows

#: Seconds that the process waits for the collector when it exits.
_CLOSE_S = 5.0


class Tracer:
    """A source of spans, exported in the background as OpenTelemetry's variables configure it.
    If the queue is full, spans are dropped. A trace is a value of `traceparent`, a point in
    time is in seconds of the monotonic clock. Safe to share among threads and greenlets."""

    def __init__(self) -> None:
        named = Resource.create({"service.name": "babelgate"})
        resource = named.merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(__name__)
        atexit.register(self.close)

    def start(self, trace: str) -> tuple[otel.Span, str]:
        """Start the span of a request, in its client's trace or a new one. Return the span and
        its trace, for the spans of the request's parts."""
        span = self._start("gateway", _read(trace), kind=otel.SpanKind.SERVER)
        own = span.get_span_context()
        return span, f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"

    def describe(self, span: otel.Span, status: int, facts: Mapping[str, str]) -> None:
        """Record the answer to a request in its span."""
        span.set_attributes({"http.response.status_code": status, **facts})
        if status >= 500:
            span.set_status(otel.StatusCode.ERROR)

    def add_queue(self, trace: str, since: float) -> None:
        """Add the span of a row that has waited until now."""
        self._start("queue", _read(trace), since).end()

    def add_batch(self, traces: Sequence[str], sent_at: float, began_at: float) -> None:
        """Add the span of a finished batch, from the sending of its first row, and that of the
        model's time for it. The batch is linked to all its sampled requests, and belongs to
        the trace of the first."""
        requests = map(_read, dict.fromkeys(traces))
        links = [otel.Link(each) for each in requests if each.trace_flags.sampled]
        if links:
            options = {"links": links, "attributes": {"babelgate.rows": len(traces)}}
            batch = self._start("batch", links[0].context, sent_at, **options)
            self._start("compute", batch.get_span_context(), began_at).end()
            batch.end()

    def close(self) -> None:
        """Send the remaining spans, if the collector accepts them in time."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)

    def _start(
        self, name: str, parent: otel.SpanContext, since: float = 0.0, **options: Any
    ) -> otel.Span:
        ago_s = time.monotonic() - since if since else 0.0
        began_ns = time.time_ns() - int(1e9 * ago_s)
        context = otel.set_span_in_context(otel.NonRecordingSpan(parent), Context())
        return self._tracer.start_span(name, context, start_time=began_ns, **options)


def _read(trace: str) -> otel.SpanContext:
    """Return the span that a trace names; an invalid one for any other text."""
    context = TraceContextTextMapPropagator().extract({rows.TRACE: trace})
    return otel.get_current_span(context).get_span_context()
