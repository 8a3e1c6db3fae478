"""The errors of HTTP calls to another program."""

import errno
import gc
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from gateway.backends.http_pool import (
    Channel,
    ConnectError,
    ConnectionClosed,
    HealthProbe,
    HttpReply,
    ReadTimeout,
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def channel(listener: socket.socket) -> Channel:
    return Channel(f"http://127.0.0.1:{listener.getsockname()[1]}")


def call(channel: Channel, *, limit_s: float = 60, **given: Any) -> HttpReply:
    until = time.monotonic() + limit_s
    return channel.call("POST", "/", {}, until=until, **given)


ERRORS = {
    OSError(errno.ETIMEDOUT, "the other end acknowledges nothing"): ConnectError,
    OSError(errno.EHOSTUNREACH, "no such machine"): ConnectError,
    OSError(errno.ENETUNREACH, "no way there"): ConnectError,
    TimeoutError("our own limit"): ReadTimeout,
    OSError(errno.EPROTO, "any other"): ConnectionClosed,
}


@pytest.mark.parametrize(("error", "expected"), ERRORS.items(), ids=str)
@pytest.mark.parametrize(
    ("when", "probe"),
    [("send", None), ("recv", None), ("recv", HealthProbe(0.01, lambda: None))],
    ids=["sending", "waiting", "waiting with a probe"],
)
def test_the_system_says_why_it_ended(
    channel, monkeypatch, when, probe, error, expected
):
    monkeypatch.setattr(socket.socket, when, Mock(side_effect=error))
    with pytest.raises(expected):
        call(channel, limit_s=0.05, probe=probe)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
HEADERS = b"".join(b"\r\nX-%d: 1" % number for number in range(101))
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
RESPONSES: dict[str, tuple[bytes, bytes | type[Exception]]] = {
    "a length": (OK, b"OK"),
    "after an interim response": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"OK"),
    "chunks": (IN_CHUNKS + b"2\r\nOK\r\n0\r\n\r\n", b"OK"),
    "cut": (OK[:-1], ConnectionClosed),
    "without an end": (b"HTTP/1.1 200 OK\r\n\r\nOK", ConnectionClosed),
    "nothing": (b"", ConnectionClosed),
    "twice": (OK + OK, ConnectionClosed),
    "too many headers": (OK.replace(b"\r", HEADERS + b"\r", 1), ConnectionClosed),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n", ConnectionClosed),
}


@pytest.mark.parametrize(("sent", "expected"), RESPONSES.values(), ids=RESPONSES)
def test_a_response_is_whole_or_an_error(channel, listener, sent, expected):
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(answer, listener, sent)
        if isinstance(expected, bytes):
            assert call(channel).body == expected
        else:
            with pytest.raises(expected):
                call(channel)
        answered.result()


@pytest.mark.parametrize("end", ["\r\nX-Other: 1", "\n", "\r"], ids=repr)
def test_a_header_with_a_line_break_is_not_sent(channel, end):
    with pytest.raises(ValueError, match="line break"):
        channel.call("POST", "/", {"X-Row": f"1{end}"}, until=time.monotonic() + 1)


def test_a_call_that_waits_is_asked_about_once_and_has_its_whole_limit(channel):
    asked: list[None] = []
    began = time.monotonic()
    with pytest.raises(ReadTimeout):
        call(channel, limit_s=0.3, probe=HealthProbe(0.01, lambda: asked.append(None)))
    assert len(asked) == 1
    assert time.monotonic() - began >= 0.3


def answer(listener: socket.socket, sent: bytes) -> None:
    """Answer the next request and close the connection."""
    client, _ = listener.accept()
    with client:
        client.recv(1000)
        client.sendall(sent)


def test_the_limit_for_connecting_is_none_for_sending(channel, listener, monkeypatch):
    monkeypatch.setattr("gateway.backends.http_pool._CONNECT_S", 0.01)
    with pytest.raises(ReadTimeout):
        call(channel, limit_s=0.2, body=bytes(64 << 20))


def test_the_connections_of_a_channel_end_with_it(listener: socket.socket):
    """They end even if a reference cycle keeps both alive until the next garbage collection."""
    channel = Channel(f"http://127.0.0.1:{listener.getsockname()[1]}")
    cycle: list[object] = [channel]
    cycle.append(cycle)
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(answer_until_the_end, listener)
        call(channel)
        del channel, cycle
        gc.collect()
        assert ended.result(60) == b""


def answer_until_the_end(listener: socket.socket) -> bytes:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.settimeout(60)
        return connection.recv(1)
