"""The load generator against servers that answer, wait, hang up or do not run, the schedule of
the open loop, and the figures of a load. No test asserts how long it takes."""

import math
import socket
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from benchmarks.instruments import generator
from benchmarks.instruments.load import measure, summarize
from tests.benchmarks.conftest import Server
from tests.e2e.real_stack import wait_until

REQUESTS = [generator.Request(b'{"number": %d}' % number) for number in range(3)]
HEAD = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A socket that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


def aim(listening: socket.socket) -> generator.Target:
    return generator.Target(f"http://127.0.0.1:{listening.getsockname()[1]}", REQUESTS)


def test_an_open_loop_does_not_wait_for_answers(listening: socket.socket):
    client = generator.Generator(aim(listening), generator.ask_within(1))
    replies = client.run([0.0] * 50)
    assert Counter(reply.status for reply in replies) == {"timeout": 50}
    spread_s = max(r.ended_s for r in replies) - min(r.ended_s for r in replies)
    assert spread_s < 1, "each waited for the one before it"


def test_a_closed_loop_asks_again_after_each_answer(server: Server):
    server.statuses = [429]
    target, manner = generator.Target(server.url, REQUESTS), generator.ask_within(5000)
    replies = generator.ask_again(target, manner, clients=2, seconds=0.3, pause_s=0.01)
    assert len(replies) == len(server.asked) > 2
    counts = Counter(reply.status for reply in replies)
    assert counts == {"429": 1, "200": len(replies) - 1}


def test_a_server_that_hangs_up_resets_and_one_that_is_not_there_refuses(listening):
    def hang_up() -> None:
        with listening.accept()[0] as client:
            client.recv(1)

    with ThreadPoolExecutor() as server:
        server.submit(hang_up)
        assert generator.ask_once(aim(listening)).status == "reset"
    nobody = generator.Target("http://127.0.0.1:9", REQUESTS)
    assert generator.ask_once(nobody).status == "refused"


def test_an_answer_that_is_there_is_no_time_out_however_late_the_client(
    listening, monkeypatch
):
    replies: list[generator.LoadReply] = []
    now_s = 0.0
    monkeypatch.setattr(generator.Generator, "_now", lambda _: now_s)
    accepted: list[socket.socket] = []

    def keep(reply: generator.LoadReply) -> None:
        nonlocal now_s
        replies.append(reply)
        if accepted:
            accepted.pop().sendall(HEAD + b"{}")
            now_s = 60.0

    with ExitStack() as servers, ThreadPoolExecutor() as server:

        def serve() -> None:
            for _ in range(2):
                accepted.append(servers.enter_context(listening.accept()[0]))
                accepted[-1].recv(1000)
            accepted.pop().sendall(HEAD + b"{}")

        server.submit(serve)
        client = generator.Generator(aim(listening), generator.ask_within(5000))
        client.run([0.0, 0.0], keep)
    assert [reply.status for reply in replies] == ["429", "429"]
    assert all(reply.ended_s < 60 for reply in replies)


def test_a_long_upload_gives_nobody_else_more_time(listening):
    def read_slowly() -> None:
        with listening.accept()[0] as first, listening.accept()[0]:
            while first.recv(100_000):
                time.sleep(0.01)

    bodies = [bytes(32 << 20), b"short"]
    target = replace(aim(listening), requests=[*map(generator.Request, bodies)])
    with ThreadPoolExecutor() as server:
        server.submit(read_slowly)
        client = generator.Generator(target, generator.Manner(patience_s=0.5))
        replies = client.run([0.0, 0.0])
    assert [(r.number, r.status) for r in replies] == [(1, "timeout"), (0, "timeout")]


def test_an_answer_has_a_status_when_it_is_complete():
    assert generator.read_status(HEAD + b"{") == generator.read_status(HEAD[:-2]) == ""
    assert generator.read_status(HEAD.lower() + b"{}") == "429"
    chunked = b"HTTP/1.1 200 OK\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert generator.read_status(chunked) == "200"


def test_arrivals_are_a_poisson_process_and_alike_for_a_seed():
    rate, seconds = 50.0, 200.0
    assert generator.draw_arrivals(rate, 10, 1) == generator.draw_arrivals(rate, 10, 1)
    assert generator.draw_arrivals(rate, 10, 1) != generator.draw_arrivals(rate, 10, 2)
    times = generator.draw_arrivals(rate, seconds, 0)
    assert abs(len(times) - rate * seconds) < 4 * math.sqrt(rate * seconds)
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    # Evenly spaced arrivals would have no deviation.
    assert abs(statistics.pstdev(gaps) / statistics.mean(gaps) - 1) < 0.05


def test_an_open_loop_sends_a_request_per_arrival_and_counts_statuses(server: Server):
    server.statuses = [429, 503]
    target = generator.Target(server.url, REQUESTS)
    load, _ = measure(target, "open", 100, seconds=0.5)
    arrivals = generator.draw_arrivals(100, 0.5, 0)
    assert load.answers == len(server.asked) == len(arrivals)
    assert {body["number"] for _, body in server.asked} == {0, 1, 2}
    assert (load.loop, load.errors) == ("open", 2)
    assert load.statuses == {"200": load.answers - 2, "429": 1, "503": 1}


def test_errors_have_no_part_in_latencies_and_lateness_only_in_an_open_loop():
    replies = [
        generator.LoadReply(0, "200", 1.0, latency_s=1.0, lag_s=0.5),
        generator.LoadReply(1, "429", 1.0, latency_s=0.001, lag_s=0.5),
        generator.LoadReply(2, "timeout", 60.0, latency_s=60.0, lag_s=0.5),
    ]
    opened, closed = (summarize(loop, 3, 2.0, replies) for loop in ("open", "closed"))
    assert (opened.errors, opened.requests_per_s, opened.lag_p99_ms) == (2, 0.5, 500)
    assert opened.latencies.p50_ms == opened.latencies.p99_ms == 1000
    assert closed.latencies.p50_ms == 500


def test_an_answer_arrives_before_it_is_read_and_the_end_is_no_arrival(listening):
    def read(client: generator.TimedSocket) -> bytes:
        place = bytearray(9)
        return bytes(place[: client.recv_into(place)])

    with generator.TimedSocket() as client:
        client.connect(listening.getsockname())
        server, _ = listening.accept()

        def is_timed() -> bool:
            """The kernel records timestamps only some time after the first request for them."""
            server.sendall(b"answer")
            sent_at = time.monotonic()
            assert read(client) == b"answer"
            return 0 < client.arrived_at <= sent_at

        with server:
            wait_until(is_timed)
            arrived_at = client.arrived_at
        assert read(client) == b""
        assert client.arrived_at == arrived_at
