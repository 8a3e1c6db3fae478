"""Gunicorn's gevent worker, except that a client whose request Gunicorn itself cannot read
gets a problem document like every other, not a page of HTML.
"""

from __future__ import annotations

import json
import uuid
from http import HTTPStatus
from typing import Any

from gevent import GreenletExit, socket
from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

# Nothing that opens sockets is imported here: gevent has not patched them yet.


class ProblemWorker(GeventWorker):  # type: ignore[misc]
    """Named in gunicorn.conf.py."""

    def handle_error(
        self, req: Any, client: Any, addr: Any, exc: BaseException
    ) -> None:
        """Answers a request that has not come as far as the application, or a fault."""
        if isinstance(exc, GreenletExit):
            return  # an idle connection, and this worker ends
        status, slug, detail = explain(exc)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.log.error("a request failed in Gunicorn", exc_info=exc)
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


def render(status: HTTPStatus, slug: str, detail: str) -> bytes:
    """A whole HTTP answer with a problem document; the connection ends with it."""
    request_id = uuid.uuid4().hex
    document = {
        "type": f"urn:babelgate:{slug}",
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
        "request_id": request_id,
    }
    body = json.dumps(document)
    return (
        f"HTTP/1.1 {status} {status.phrase}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/problem+json\r\n"
        f"X-Request-ID: {request_id}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"\r\n{body}"
    ).encode()
