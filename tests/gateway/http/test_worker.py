"""The answers to requests that do not reach the application."""

import json
import signal
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config  # type: ignore[import-untyped]
from gunicorn.http import errors  # type: ignore[import-untyped]
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

from gateway.http import worker
from gateway.http.worker import ProblemWorker, explain, refuse


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (errors.LimitRequestLine(1, 2), 431, "header-too-large"),
        (errors.LimitRequestHeaders("x"), 431, "header-too-large"),
        (errors.InvalidRequestLine("x"), 400, "malformed-request"),
        (errors.InvalidResponseHeader("x"), 500, "internal"),
        (ZeroDivisionError("secret"), 500, "internal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_of_gunicorn_is_told_as_ours_or_the_clients(error, status, slug):
    answer = explain(error)
    assert (answer.status, answer.slug) == (status, slug)
    assert "secret" not in answer.detail


@pytest.fixture
def start(monkeypatch):
    """A function that starts a worker with a setting; `check` replaces Gunicorn's own start."""
    monkeypatch.setattr(worker, "reduce_logs", lambda: None)

    def start(name: str, value: Any, check: Any = lambda _: None) -> ProblemWorker:
        monkeypatch.setattr(GeventWorker, "init_process", check)
        started = ProblemWorker.__new__(ProblemWorker)
        started.cfg = Config()
        started.cfg.set(name, value)
        masters = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            started.init_process()
        finally:
            signal.signal(signal.SIGTERM, masters)
        return started

    return start


def test_a_worker_can_be_ended_while_it_starts(start):
    found: list[Any] = []
    start("timeout", 60, lambda _: found.append(signal.getsignal(signal.SIGTERM)))
    assert found == [signal.SIG_DFL]


SETTINGS = {"timeout": 60, "accesslog": "-", "limit_request_fields": 50, "keepalive": 0}


@pytest.mark.parametrize("name", SETTINGS)
def test_gunicorn_reads_all_where_a_setting_is_about_requests(start, name):
    assert start(name, SETTINGS[name])._is_direct is (name == "timeout")


def test_a_worker_accepts_connections_until_its_idle_ones_have_ended(monkeypatch):
    later: list[Any] = []
    monkeypatch.setattr(worker, "spawn_later", lambda *given: later.append(given))
    count = lambda self, *_: setattr(self, "nr", self.nr + 1)  # noqa: E731
    monkeypatch.setattr(GeventWorker, "handle_request", count)
    config, body = Config(), SimpleNamespace(failed=False, reader=None)
    config.set("max_requests", 2)
    ending: Any = ProblemWorker(1, 1, [], None, 60, config, None)
    ending.tmp.close()
    asked = [SimpleNamespace(should_close=lambda: False, body=body) for _ in range(3)]
    for request in asked:
        ending.handle_request(None, request, None, None)
    assert [request.should_close() for request in asked] == [False, True, True]
    assert later == [(config.keepalive, setattr, ending, "alive", False)]
    assert ending.max_requests > 1e9


def test_a_client_that_has_gone_is_no_fault(caplog):
    client, peer = socket.socketpair()
    client.close()
    peer.close()
    said: list[str] = []
    log = SimpleNamespace(warning=lambda *a: said.append(a[0]), debug=lambda *a: None)
    stub: Any = SimpleNamespace(log=log)
    ProblemWorker.handle_error(stub, None, client, None, errors.InvalidHeader("x"))
    assert said == ["a request could not be parsed: %s"]


@pytest.mark.parametrize(
    ("head", "members"),
    [
        (b"POST /v2/translate?text=a HTTP/1.1\r\nHost: a\r\n", {"message", "detail"}),
        (b"POST /detect HTTP/1.1\r\n", {"error", "detail"}),
        (b"", {"type", "title", "status", "detail", "request_id"}),
    ],
)
def test_who_is_too_many_is_told_so_in_the_api_of_the_path(head, members):
    client, peer = socket.socketpair()
    with client, peer:
        peer.sendall(head or b"\r\n")
        peer.shutdown(socket.SHUT_WR)
        refuse(client)
        answer = peer.recv(1 << 16)
    first, _, rest = answer.partition(b"\r\n")
    assert first == b"HTTP/1.1 429 Too Many Requests"
    assert set(json.loads(rest.partition(b"\r\n\r\n")[2])) == members
