"""The two loops against a server that answers at once. Nothing here asserts a time."""

from __future__ import annotations

import json

import pytest

from benchmarks.instruments.generator import LoadReply, Request, Target, draw_arrivals
from benchmarks.instruments.load import measure_open, summarize
from tests.benchmarks.conftest import Server

REQUESTS = [Request(json.dumps({"number": i}).encode()) for i in range(5)]


def test_an_open_loop_sends_a_request_per_arrival(server: Server):
    target = Target(server.url, REQUESTS)
    load = measure_open(target, rate=100, seconds=0.5, connections=4, seed=3)
    assert load.answers == len(server.asked) == len(draw_arrivals(100, 0.5, 3))
    assert load.loop == "open"
    assert load.lag_p99_ms is not None


def test_what_is_no_translation_is_an_error(server: Server):
    server.statuses = [429, 503]
    target = Target(server.url, REQUESTS)
    load = measure_open(target, rate=100, seconds=0.3, connections=1)
    assert load.errors == 2
    assert load.statuses == {"200": load.answers - 2, "429": 1, "503": 1}


def test_errors_have_no_part_in_the_latencies():
    replies = [
        LoadReply(0, "200", 1.0, latency_s=1.0, lag_s=0.0),
        LoadReply(1, "429", 1.0, latency_s=0.001, lag_s=0.0),
        LoadReply(2, "timeout", 60.0, latency_s=60.0, lag_s=0.0),
    ]
    load = summarize("closed", 3, 2.0, replies)
    assert load.latencies.p50_ms == load.latencies.p99_ms == pytest.approx(1000)
    assert load.requests_per_s == pytest.approx(0.5)
    assert load.errors == 2


def test_lateness_of_the_client_is_shown():
    replies = [LoadReply(0, "200", 1.0, latency_s=1.0, lag_s=0.5)]
    opened, closed = (summarize(loop, 3, 2.0, replies) for loop in ("open", "closed"))
    assert opened.lag_p99_ms == pytest.approx(500)
    assert opened.latencies.p50_ms == pytest.approx(1000)
    assert closed.latencies.p50_ms == pytest.approx(500)
