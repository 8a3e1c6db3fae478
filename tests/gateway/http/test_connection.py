"""Reading a body in time, and whether a client still waits."""

from __future__ import annotations

import io
import socket
import time

import gevent
import pytest
from gunicorn.http.errors import InvalidChunkSize, NoMoreData  # type: ignore[import-untyped]

from gateway.errors import ClientGone, DeadlineExceeded, MalformedRequest
from gateway.http.bodies import read_chunk
from gateway.http.call import Deadline
from gateway.http.sending import has_gone

LIMIT_S = 60


class Failing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, size: int, /) -> bytes:
        raise self._error


class Silent:
    def read(self, size: int, /) -> bytes:
        gevent.sleep(3600)
        return b""


def test_a_body_is_read_in_pieces_to_its_end():
    body = io.BytesIO(bytes(300 << 10))
    later = Deadline(time.monotonic() + 60)
    assert len(read_chunk(body, later)) == 256 << 10
    assert len(read_chunk(body, later)) == 44 << 10
    assert read_chunk(body, later) == b""


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (NoMoreData(), ClientGone),
        (ConnectionResetError(), ClientGone),
        (InvalidChunkSize(b"x"), MalformedRequest),
    ],
)
def test_what_gunicorn_raises_is_a_problem(error, problem):
    with pytest.raises(problem):
        read_chunk(Failing(error), Deadline(time.monotonic() + 60))


@pytest.mark.parametrize("limit_s", [-1, 0, 0.01])
def test_a_body_that_does_not_come_is_a_deadline_that_passed(limit_s):
    with pytest.raises(DeadlineExceeded):
        read_chunk(Silent(), Deadline(time.monotonic() + limit_s))


def test_a_client_has_gone_once_it_has_closed_even_where_something_is_unread():
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            assert not has_gone(ours)
            theirs.sendall(b"unread")
            assert not has_gone(ours)
        assert has_gone(ours)
    assert has_gone(ours), "ours is closed as well"


def test_where_there_is_no_connection_nobody_has_gone():
    assert not has_gone(None)
