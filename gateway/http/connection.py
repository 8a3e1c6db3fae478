"""Reads a body from its connection in pieces and in time, and notices whether the
client is still there.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from flask import Flask, Response, request
from gevent import Timeout, sleep
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]

from gateway.errors import (
    BodyTooSlow,
    ClientGone,
    DeadlineExceeded,
    MalformedRequest,
    Problem,
)
from gateway.http.sending import Connection, LeastRate, Silence, TooSlow

#: The largest and the first read, in bytes.
READ_BYTES, _FIRST_BYTES = 256 << 10, 4 << 10
#: Seconds for the rest of a body whose answer is known: then its connection can be used again.
_REST_S = 2
_CLOSED = "The client has closed the connection."
#: gevent takes 0 for no timer.
_MOMENT_S = 1e-12
#: Seconds between two looks at whether waiting is still useful.
_LOOK_S = 0.25


class RequestBody(Protocol):
    """A request's body, as Gunicorn gives it."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end."""


class WholeBody(io.BytesIO):
    """A body that was read before its route is called."""


@dataclass(frozen=True)
class Incoming:
    """A body that is still arriving. A chunked body has no `length`."""

    body: RequestBody
    length: int | None = None
    #: The connection, if there is one.
    client: socket.socket | None = None

    def read(
        self,
        deadline: float,
        rate: LeastRate,
        expect: Callable[[int], None] = lambda _: None,
    ) -> Iterator[bytes]:
        """The whole body, in pieces. Before each read, `expect` is told how many bytes have
        come and may come with it, which is at most twice what has come. Raises what
        `read_chunk` raises, and ClientGone if the body ends early.
        """
        found, silence = 0, Silence(rate)
        while self.length is None or found < self.length:
            size = min(READ_BYTES, max(_FIRST_BYTES, found))
            expect(found + size)
            with self._bear(silence, size):
                chunk = read_chunk(self.body, deadline, size)
            if not chunk:
                if self.length is None:
                    return
                raise ClientGone(_CLOSED)
            found += len(chunk)
            yield chunk

    def _bear(self, silence: Silence, most_bytes: int) -> AbstractContextManager[None]:
        if isinstance(self.client, Connection):
            return self.client.bear(silence, most_bytes)
        return nullcontext()


def read_chunk(body: RequestBody, deadline: float, size: int = READ_BYTES) -> bytes:
    """The next piece, empty at the end.

    Raises DeadlineExceeded, BodyTooSlow, ClientGone or MalformedRequest.
    """
    remaining = deadline - time.monotonic()
    try:
        if remaining <= 0:
            raise TimeoutError
        # This kind of error tells Gunicorn to close the connection.
        with Timeout(remaining, TimeoutError):
            return body.read(size)
    except TimeoutError as error:
        raise DeadlineExceeded(
            "The deadline passed before the whole body was there."
        ) from error
    except TooSlow as error:
        raise BodyTooSlow("The body came too slowly.") from error
    except OSError as error:
        raise ClientGone(_CLOSED) from error
    except ParseException as error:
        raise MalformedRequest("The body's chunks cannot be read.") from error


def register_reading(app: Flask) -> None:
    """Reads the rest of the body of every failed request before its answer. After an early
    answer nginx fails to tell the client that it closes the connection."""

    @app.after_request
    def read_on(response: Response) -> Response:
        body = request.environ["wsgi.input"]
        is_whole = isinstance(body, WholeBody)
        if response.status_code >= HTTPStatus.BAD_REQUEST and not is_whole:
            deadline = time.monotonic() + _REST_S
            with suppress(Problem):
                while read_chunk(body, deadline):
                    pass
        return response


@dataclass(frozen=True)
class Deadline:
    """How long to wait for an answer. `deadline` is in seconds of the monotonic clock."""

    deadline: float
    has_gone: Callable[[], bool] = lambda: False

    def check(self) -> float:
        """Seconds after which to look again. Raises DeadlineExceeded or ClientGone."""
        if self.has_gone():
            raise ClientGone("The client has closed the connection.")
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded("The deadline passed before the texts were read.")
        return min(remaining, _LOOK_S)


def let_others_run() -> None:
    """Lets every other ready greenlet run once. With `sleep(0)`, gevent would look at its
    sockets only after dozens of callbacks."""
    sleep(_MOMENT_S)
