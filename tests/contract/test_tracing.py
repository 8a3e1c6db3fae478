"""The spans of a batch, as a collector receives them."""

import time

import pytest

from contract import variables
from contract.tracing import Tracer
from tests.collector import Collector


def name_trace(digit: str, flags: str = "01") -> str:
    return f"00-{digit * 32}-{digit * 16}-{flags}"


def test_a_batch_is_linked_to_its_requests_and_computed_at_its_end(monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    unsampled, now = name_trace("c", "00"), time.monotonic()
    traces = [unsampled, *(name_trace(digit) for digit in "aab"), ""]
    with Collector() as collector:
        monkeypatch.setenv(variables.OTLP_ENDPOINT.name, collector.url)
        tracer = Tracer()
        tracer.add_batch(traces, now - 3, now - 1)
        tracer.add_batch([unsampled, "what?"], now, now)
        tracer.close()
    (batch,), (compute,) = map(collector.list_spans, ("batch", "compute"))
    assert [link.span_id.hex() for link in batch.links] == ["a" * 16, "b" * 16]
    assert (batch.trace_id.hex(), batch.parent_span_id.hex()) == ("a" * 32, "a" * 16)
    assert batch.attributes[0].value.int_value == len(traces)
    assert compute.parent_span_id == batch.span_id
    waited_s = (compute.start_time_unix_nano - batch.start_time_unix_nano) / 1e9
    assert waited_s == pytest.approx(2, abs=0.5)
    assert compute.end_time_unix_nano <= batch.end_time_unix_nano
    assert b"mine" in collector.payloads[0]
