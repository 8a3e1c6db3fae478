"""A scripted collector of OpenTelemetry spans, by OTLP over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.scripted_server import FAULTS, ScriptedHandler, ScriptedServer


@dataclass
class Collector(ScriptedServer):
    payloads: list[bytes] = field(default_factory=list)

    def list_spans(self, name: str) -> list[Span]:
        """Return the received spans with a name, the earliest first."""
        found = (span for span in self._read() if span.name == name)
        return sorted(found, key=attrgetter("start_time_unix_nano"))

    def _read(self) -> Iterator[Span]:
        for payload in list(self.payloads):
            request = otlp.ExportTraceServiceRequest.FromString(payload)
            for process in request.resource_spans:
                for scope in process.scope_spans:
                    yield from scope.spans


class _Handler(ScriptedHandler):
    fake: Collector

    def do_POST(self) -> None:
        behave = self.fake.take(self.read_body(), self.fake.payloads)
        behave(self)
        self.fake.leave()


Collector.handler = _Handler
Collector.behaviours = {"take": lambda handler: handler.reply(200, b""), **FAULTS}
