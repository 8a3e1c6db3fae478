"""Spans of the gateway under Gunicorn, exported outside gevent's event loop."""

import subprocess
import sys
import threading
import time

import pytest
import requests

from contract import variables
from deploy.stack import ROOT
from tests.collector import Collector
from tests.gateway.test_gunicorn import WANTED, is_alive, post, serve_before_fake
from tests.scripted_server import LIMIT_S

pytestmark = pytest.mark.slow

TRACE, CLIENT, OTHER = "a" * 32, "b" * 16, "c" * 32
SECRET = "xylophone7391"
#: A worker waits for idle connections before it ends.
CLOSE = {"Connection": "close"}
ON = variables.OTLP_ENDPOINT.name
#: A program that imports a handler and creates the gateway without keys.
PROGRAM = """
import sys, handlers.translation
from gateway.app import create_app
from gateway.settings import Settings
create_app(Settings.model_construct()).close()
absent = {"opentelemetry", "sqlalchemy", "alembic", "limits", "redis", "psycopg"}
assert absent.isdisjoint(name.partition(".")[0] for name in sys.modules)
"""


def test_a_request_has_a_span_in_its_clients_trace_and_its_rows_wait_in_it(tmp_path):
    """The spans arrive when the process ends: it would otherwise keep them for an hour."""
    hour = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    with Collector() as collector:
        options = {ON: collector.url, **hour}
        with serve_before_fake(tmp_path, **options) as (url, _, fake):
            sampled, not_sampled = f"00-{TRACE}-{CLIENT}-01", f"00-{OTHER}-{CLIENT}-00"
            answer = post(url, SECRET, traceparent=sampled, **CLOSE)
            post(url, "b", traceparent=not_sampled, **CLOSE)
            fake.together = threading.Barrier(2)
            fake.will("echo", "together")
            with requests.post(
                url,
                json=WANTED | {"src_text": "One.\nTwo."},
                headers={"Accept": "text/event-stream", **CLOSE},
                stream=True,
                timeout=LIMIT_S,
            ) as stream:
                begun_ns = time.time_ns()
                fake.together.wait(LIMIT_S)
                assert b"event: done" in stream.content
    first, streamed = collector.list_spans("gateway")
    queue, *others = collector.list_spans("queue")
    assert (first.trace_id.hex(), first.parent_span_id.hex()) == (TRACE, CLIENT)
    assert (queue.trace_id, queue.parent_span_id) == (first.trace_id, first.span_id)
    times = [first.start_time_unix_nano, queue.start_time_unix_nano]
    times += [queue.end_time_unix_nano, first.end_time_unix_nano]
    assert times == sorted(times)
    facts = {each.key: each.value.string_value for each in first.attributes}
    assert facts == {
        "http.request.method": "POST",
        "http.route": "/",
        "http.response.status_code": "",
        "babelgate.request_id": answer.headers["X-Request-ID"],
        "babelgate.target": "ko",
    }
    assert not streamed.parent_span_id
    assert streamed.end_time_unix_nano > begun_ns
    assert {each.parent_span_id for each in others} == {streamed.span_id}
    sampled, dropped, *_ = (call.headers["traceparent"] for call in fake.calls)
    assert sampled.startswith(f"00-{TRACE}-{first.span_id.hex()}-")
    assert dropped.startswith(f"00-{OTHER}-")
    assert SECRET.encode() not in b"".join(collector.payloads)


def test_a_collector_that_hangs_delays_nobody(tmp_path):
    sizes = dict.fromkeys(("MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"), "1")
    options = {f"OTEL_BSP_{name}": value for name, value in sizes.items()}
    with Collector() as collector:
        collector.will(*["hang"] * 100)
        options[ON] = collector.url
        with serve_before_fake(tmp_path, **options) as (url, _, _):
            assert post(url, **CLOSE).ok
            collector.wait_until(lambda: collector.at_once > 0)
            assert all(post(url, f"Number {n}", **CLOSE).ok for n in range(10))
            assert is_alive(url)
            assert collector.at_once > 0
        log = (tmp_path / "log").read_text()
    assert "Queue full, dropping Span." in log
    assert "Worker exiting" in log
    assert "Traceback" not in log


def test_what_no_setting_asks_for_is_not_imported():
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True)
