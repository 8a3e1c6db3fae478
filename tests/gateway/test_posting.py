"""What a call to another program's address says about how it has failed."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator

import pytest
from urllib3.connection import HTTPConnection

from gateway.posting import Broken, Channel, Silent, Unreachable


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def channel(listener: socket.socket) -> Channel:
    return Channel(f"http://127.0.0.1:{listener.getsockname()[1]}", connections=1)


def call(channel: Channel, *, limit_s: float = 60, body: bytes = b"") -> None:
    channel.call("POST", "/", {}, body=body, until=time.monotonic() + limit_s)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ETIMEDOUT, "the other end acknowledges nothing"), Unreachable),
        (OSError(errno.EHOSTUNREACH, "no such machine"), Unreachable),
        (OSError(errno.ENETUNREACH, "no way there"), Unreachable),
        (OSError(errno.ECONNRESET, "closed"), Broken),
        (TimeoutError("our own limit"), Silent),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("when", ["request", "getresponse"])
def test_the_system_says_why_a_connection_has_ended(
    channel, monkeypatch, when, error, expected
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(HTTPConnection, when, fail)
    with pytest.raises(expected):
        call(channel)


def test_who_refuses_connections_is_not_there(channel, listener):
    listener.close()
    with pytest.raises(Unreachable, match="does not accept connections"):
        call(channel)


def test_who_says_nothing_is_silent(channel):
    with pytest.raises(Silent):
        call(channel, limit_s=0.05)


def test_who_reads_nothing_of_a_large_body_is_silent(channel):
    with pytest.raises(Silent):
        call(channel, limit_s=0.2, body=bytes(64 << 20))


def test_the_limit_for_connecting_is_none_for_sending(channel, listener, monkeypatch):
    monkeypatch.setattr("gateway.posting._CONNECT_S", 0.01)
    with pytest.raises(Silent):
        call(channel, limit_s=0.2, body=bytes(64 << 20))
