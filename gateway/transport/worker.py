"""Gunicorn's gevent worker with four changes: requests that Gunicorn cannot read or has
no room for get a problem document, refusals skip Gunicorn's parser, slow bodies are
noticed, and logs never quote an error's message.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gevent import GreenletExit, Timeout, socket
from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

from contract.problems import write_answer, write_problem
from gateway.faults import describe, reduce_logs
from gateway.transport.sending import Connection

# Nothing that opens sockets is imported here: gevent has not patched them yet.

#: How many connections are told at the same time that there are too many, and how long each
#: may take over it. Others wait that long to be accepted.
_REFUSED_AT_ONCE, _REFUSAL_S = 256, 2
#: Where the application keeps what knows which requests are refused.
EXTENSION = "babelgate.refusal"
#: What is read at once of a request that may be refused, and how long its body may stay behind
#: its head.
_READ_BYTES, _BODY_S = 8192, 0.05


class ProblemWorker(GeventWorker):  # type: ignore[misc]
    """Named in gunicorn.conf.py."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most: int = self.cfg.worker_connections
        self._open = 0
        # Gunicorn accepts no more than these; a client that is not accepted gets no answer.
        self.worker_connections = self._most + _REFUSED_AT_ONCE

    def init_process(self) -> None:
        """Runs until the worker ends."""
        reduce_logs()
        super().init_process()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """All requests of a connection."""
        if self._open >= self._most:
            with suppress(OSError):
                refuse(client)
            return
        self._open += 1
        try:
            super().handle(listener, Connection(fileno=client.detach()), addr)
        finally:
            self._open -= 1

    def handle_request(
        self, listener_name: Any, req: Any, sock: Connection, addr: Any
    ) -> None:
        """One request, and those behind it that are refused before Gunicorn reads them."""
        super().handle_request(listener_name, req, sock, addr)
        if getattr(req.body.reader, "length", None) == 0:  # all of its body has come
            sock.put_back(req.unreader.take_buffered())
            self._refuse_next(sock)

    def _refuse_next(self, sock: Connection) -> None:
        """Returns when the next request is one for Gunicorn. Raises StopIteration where none
        comes."""
        refusal = self.wsgi.extensions[EXTENSION]
        while self.alive:
            data = b""
            with self.timeout_ctx():
                data = sock.recv(_READ_BYTES)
            if not data:
                raise StopIteration
            answer = None
            if refusal.is_likely:
                data += _read_body(sock, data)
                answer = refusal.answer(data)
            if answer is None:
                sock.put_back(data)
                return
            sock.sendall(answer)

    def handle_error(
        self, req: Any, client: Any, addr: Any, exc: BaseException
    ) -> None:
        """Answers a request that has not come as far as the application, or a fault."""
        if isinstance(exc, GreenletExit):
            return  # an idle connection, and this worker ends
        status, slug, detail = explain(exc)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.log.error("a request failed in Gunicorn: %s", describe(exc))
        else:
            self.log.warning("a request cannot be read: %s", type(exc).__name__)
        try:
            util.write_nonblock(client, render(status, slug, detail))
        except OSError:
            self.log.debug("the client has gone before its error was sent")


class EmbeddedWorker(ProblemWorker):
    """For models in this process: gevent patches nothing, so that a thread is a thread and
    the model runs beside the greenlets.

    Gunicorn uses gevent's sockets by name, and of the gateway only what speaks to
    TorchServe needs patched ones.
    """

    def patch(self) -> None:
        """Only the sockets that it listens on become gevent's."""
        self.sockets = [
            socket.socket(s.FAMILY, socket.SOCK_STREAM, fileno=s.sock.detach())
            for s in self.sockets  # type: ignore[has-type]
        ]


def _read_body(sock: Connection, head: bytes) -> bytes:
    """nginx sends a small body with its head, or right behind it."""
    body = b""
    if head.startswith(b"POST ") and head.endswith(b"\r\n\r\n"):
        with Timeout(_BODY_S, False):
            body = sock.recv(_READ_BYTES)
    return body


def refuse(client: Any) -> None:
    """Reads a request's beginning, says that there are too many, and waits until the client
    has read it: closed with something unread the connection would be reset."""
    answer = render(
        HTTPStatus.TOO_MANY_REQUESTS,
        "too-many-connections",
        "The gateway has as many connections as it takes.",
        retry_after_s=1,
    )
    with Timeout(_REFUSAL_S, False):
        client.recv(1 << 16)
        client.sendall(answer)
        client.shutdown(socket.SHUT_WR)
        while client.recv(1 << 16):
            pass


def explain(error: BaseException) -> tuple[HTTPStatus, str, str]:
    """Status, slug and detail of what Gunicorn raises."""
    match error:
        case LimitRequestLine() | LimitRequestHeaders():
            return (
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                "header-too-large",
                "The URL or the headers are too long.",
            )
        case InvalidResponseHeader() | InvalidResponseHeaderName():
            pass  # our header, not the client's
        case ParseException():
            return (
                HTTPStatus.BAD_REQUEST,
                "malformed-request",
                "The request is not HTTP that this server reads.",
            )
    return (
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        "The gateway failed on this request.",
    )


def render(
    status: HTTPStatus, slug: str, detail: str, *, retry_after_s: int | None = None
) -> bytes:
    """A whole HTTP answer with a problem document; the connection ends with it."""
    request_id = uuid.uuid4().hex
    headers = {"Connection": "close", "X-Request-ID": request_id}
    if retry_after_s:
        headers["Retry-After"] = str(retry_after_s)
    problem = write_problem(slug, status, detail, request_id=request_id)
    return write_answer(problem, headers)
