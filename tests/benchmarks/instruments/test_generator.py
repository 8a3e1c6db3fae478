"""The generator against servers that answer, wait, hang up, or are not there, the schedule of
the open loop, and the figures of a load. No test asserts a time of its own."""

from __future__ import annotations

import math
import socket
import statistics
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from benchmarks.instruments import generator
from benchmarks.instruments.load import measure_open, summarize
from tests.benchmarks.conftest import Server

REQUESTS = [generator.Request(b'{"number": %d}' % number) for number in range(3)]
HEAD = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n"


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_an_open_loop_asks_once_per_arrival_and_in_order(server: Server):
    replies = generator.ask_at(
        generator.Target(server.url, REQUESTS),
        [0.0, 0.01, 0.02],
        generator.ask_within(5000),
    )
    assert [reply.status for reply in replies] == ["200"] * 3
    assert sorted(reply.number for reply in replies) == [0, 1, 2]
    assert sorted(body["number"] for _, body in server.asked) == [0, 1, 2]
    assert all(reply.latency_s >= reply.lag_s >= 0 for reply in replies)


def test_an_open_loop_does_not_wait_for_answers(silent: str):
    replies = generator.ask_at(
        generator.Target(silent, REQUESTS), [0.0] * 50, generator.ask_within(1)
    )
    assert Counter(reply.status for reply in replies) == {"timeout": 50}
    spread_s = max(r.ended_s for r in replies) - min(r.ended_s for r in replies)
    assert spread_s < 1, "each waited for the one before it"


def test_a_bound_on_connections_makes_requests_wait(silent: str):
    manner = generator.Manner(patience_s=0.1, connections=1)
    replies = generator.ask_at(generator.Target(silent, REQUESTS), [0.0, 0.0], manner)
    assert [reply.status for reply in replies] == ["timeout"] * 2
    assert replies[1].lag_s >= 0.1


def test_a_closed_loop_asks_again_after_each_answer(server: Server):
    server.statuses = [429]
    replies = generator.ask_again(
        generator.Target(server.url, REQUESTS),
        generator.ask_within(5000),
        clients=2,
        seconds=0.3,
        pause_s=0.01,
    )
    counts = Counter(reply.status for reply in replies)
    assert len(replies) == len(server.asked) > 2
    assert counts == {"429": 1, "200": len(replies) - 1}


def test_a_server_that_is_not_there_refuses():
    replies = generator.ask_at(
        generator.Target("http://127.0.0.1:9", REQUESTS),
        [0.0],
        generator.ask_within(500),
    )
    assert [reply.status for reply in replies] == ["refused"]


def test_a_server_that_hangs_up_resets():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            with closing(listening.accept()[0]) as client:
                client.recv(1)

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        replies = generator.ask_at(
            generator.Target(url, REQUESTS), [0.0], generator.ask_within(5000)
        )
        thread.join()
    assert [reply.status for reply in replies] == ["reset"]


def test_an_answer_that_is_there_is_no_time_out_however_late_the_client(monkeypatch):
    replies: list[generator.LoadReply] = []
    now_s = 0.0
    monkeypatch.setattr(generator.Generator, "_now", lambda _: now_s)
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as servers:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        accepted: list[socket.socket] = []

        def serve() -> None:
            for _ in range(2):
                accepted.append(servers.enter_context(listening.accept()[0]))
                accepted[-1].recv(1000)
            accepted.pop().sendall(HEAD + b"{}")

        def keep(reply: generator.LoadReply) -> None:
            nonlocal now_s
            replies.append(reply)
            if accepted:
                accepted.pop().sendall(HEAD + b"{}")
                now_s = 60.0

        thread = threading.Thread(target=serve)
        thread.start()
        generator.Generator(
            generator.Target(url, REQUESTS), generator.ask_within(5000)
        ).run([0.0, 0.0], keep)
        thread.join()
    assert [reply.status for reply in replies] == ["429", "429"]
    assert all(reply.ended_s < 60 for reply in replies)


@pytest.mark.parametrize(
    ("received", "status"),
    [
        pytest.param(HEAD + b"{}", "429", id="complete"),
        pytest.param(HEAD + b"{", "", id="its body is coming"),
        pytest.param(HEAD[:-2], "", id="its head is coming"),
        pytest.param(HEAD.lower() + b"{}", "429", id="small letters"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "200", id="in chunks"
        ),
    ],
)
def test_an_answer_has_a_status_when_it_is_complete(received: bytes, status: str):
    assert generator.read_status(received) == status


RATE, SECONDS = 50.0, 200.0


def test_the_same_seed_gives_the_same_arrivals():
    assert generator.draw_arrivals(RATE, 10, 1) == generator.draw_arrivals(RATE, 10, 1)
    assert generator.draw_arrivals(RATE, 10, 1) != generator.draw_arrivals(RATE, 10, 2)


def test_on_average_they_come_at_the_rate():
    expected = RATE * SECONDS
    count = len(generator.draw_arrivals(RATE, SECONDS, 0))
    assert abs(count - expected) < 4 * math.sqrt(expected)


def test_gaps_are_exponential():
    times = generator.draw_arrivals(RATE, SECONDS, 0)
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    mean, deviation = statistics.mean(gaps), statistics.pstdev(gaps)
    assert abs(deviation / mean - 1) < 0.05  # those of an even schedule would have 0


def test_an_open_loop_sends_a_request_per_arrival(server: Server):
    target = generator.Target(server.url, REQUESTS)
    load = measure_open(target, rate=100, seconds=0.5, connections=4, seed=3)
    assert (
        load.answers == len(server.asked) == len(generator.draw_arrivals(100, 0.5, 3))
    )
    assert load.loop == "open"
    assert load.lag_p99_ms is not None


def test_what_is_no_translation_is_an_error(server: Server):
    server.statuses = [429, 503]
    target = generator.Target(server.url, REQUESTS)
    load = measure_open(target, rate=100, seconds=0.3, connections=1)
    assert load.errors == 2
    assert load.statuses == {"200": load.answers - 2, "429": 1, "503": 1}


def test_errors_have_no_part_in_the_latencies():
    replies = [
        generator.LoadReply(0, "200", 1.0, latency_s=1.0, lag_s=0.0),
        generator.LoadReply(1, "429", 1.0, latency_s=0.001, lag_s=0.0),
        generator.LoadReply(2, "timeout", 60.0, latency_s=60.0, lag_s=0.0),
    ]
    load = summarize("closed", 3, 2.0, replies)
    assert load.latencies.p50_ms == load.latencies.p99_ms == pytest.approx(1000)
    assert load.requests_per_s == pytest.approx(0.5)
    assert load.errors == 2


def test_lateness_of_the_client_is_shown():
    replies = [generator.LoadReply(0, "200", 1.0, latency_s=1.0, lag_s=0.5)]
    opened, closed = (summarize(loop, 3, 2.0, replies) for loop in ("open", "closed"))
    assert opened.lag_p99_ms == pytest.approx(500)
    assert opened.latencies.p50_ms == pytest.approx(1000)
    assert closed.latencies.p50_ms == pytest.approx(500)
