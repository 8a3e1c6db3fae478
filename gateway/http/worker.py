"""Gunicorn's gevent worker with seven changes: requests that Gunicorn cannot read or has
no room for get a problem document, small requests to translate skip Gunicorn's parser, slow
bodies are noticed, answers in the middle of a body arrive, a worker that starts can be ended,
one that ends answers on all its connections, and logs never quote an error's message.
"""

import re
import signal
import time
import uuid
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache, partial
from types import SimpleNamespace
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
from gunicorn.http.wsgi import base_environ  # type: ignore[import-untyped]
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

from contract.dialects import find_dialect
from gateway.errors import (
    HeaderTooLarge,
    InternalError,
    MalformedRequest,
    Problem,
    TooManyConnections,
)
from gateway.http.connection import Connection, has_gone, send_all
from gateway.http.message import Message, WholeBody, is_head, read_message
from gateway.redaction import describe, reduce_logs

# Nothing that opens sockets is imported here: gevent has not patched them yet.

#: Surplus connections that get a refusal at the same time, and the seconds that each may take.
#: Further ones wait to be accepted.
_REFUSED_AT_ONCE, _REFUSAL_S = 256, 2
#: Seconds in which a client may go on with a body that is not read any more.
_REST_S = 10
#: Bytes that are read before Gunicorn has a request, and seconds by which its body may follow
#: its head.
_READ_BYTES, _BODY_S = 8192, 0.05

#: Settings about single requests, which only Gunicorn heeds.
_PER_REQUEST = """accesslog header_map limit_request_field_size limit_request_fields logconfig
    logconfig_dict logconfig_json logger_class max_requests post_request pre_request
    proxy_protocol statsd_host syslog""".split()


class ProblemWorker(GeventWorker):  # type: ignore[misc]
    """Named in gunicorn.conf.py."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most: int = self.cfg.worker_connections
        self._open = 0
        # Gunicorn accepts no more connections than these, and gives others no answer.
        self.worker_connections = self._most + _REFUSED_AT_ONCE

    def init_process(self) -> None:
        """Runs the worker until it ends."""
        # Until Gunicorn sets a worker's handlers it has the master's, which only make a note: a
        # worker that was told to end while it started went on, and the master waited for it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        reduce_logs()
        settings = self.cfg.settings
        # Gunicorn looks a setting up by two functions, dozens of times for each request.
        self.cfg.__dict__.update({name: each.get() for name, each in settings.items()})
        heeded = (settings[name] for name in _PER_REQUEST)
        address = self.cfg.address[0]
        host, port = address if isinstance(address, tuple) else ("", "")
        is_usual = all(each.get() == each.default for each in heeded)
        self._is_direct = is_usual and bool(host and self.cfg.keepalive)
        self._environ = {
            **base_environ(self.cfg),
            "SERVER_NAME": host,
            "SERVER_PORT": str(port),
            "REQUEST_METHOD": "POST",
            "QUERY_STRING": "",
            "SCRIPT_NAME": "",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.multithread": True,
            "wsgi.url_scheme": "http",
        }
        super().init_process()

    def run(self) -> None:
        """Serves until it is to end, and then those who are connected."""
        # Gunicorn asks a listener for its name at the first request that it reads of a
        # connection. In a worker that ends it is closed by then, and nginx would get no answer.
        names = {s: s.getsockname() for s in self.sockets}
        self._names = {
            s: SimpleNamespace(getsockname=partial(names.get, s)) for s in names
        }
        super().run()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serves all requests of a connection."""
        if self._open >= self._most:
            with suppress(OSError):
                refuse(client)
            return
        self._open += 1
        connection = Connection(fileno=client.detach())
        try:
            with suppress(StopIteration, OSError):
                self._serve_next(connection, addr)
                super().handle(self._names[listener], connection, addr)
        except Exception as error:
            self.handle_error(None, connection, addr, error)
        finally:
            connection.close()
            self._open -= 1

    def handle_request(
        self, listener_name: Any, req: Any, sock: Connection, addr: Any
    ) -> None:
        """Serves a request, then those behind it that Gunicorn need not read."""
        should_close = req.should_close
        # Gunicorn closes after a body that failed, but does not say so: nginx would send the
        # next request on that connection.
        req.should_close = lambda: should_close() or req.body.failed
        try:
            super().handle_request(listener_name, req, sock, addr)
        except StopIteration:
            if req.body.failed:
                with Timeout(_REST_S, False):
                    linger(sock)
            raise
        if getattr(req.body.reader, "length", None) == 0:  # all of its body has come
            sock.put_back(req.unreader.take_buffered())
            self._serve_next(sock, addr)

    def _serve_next(self, sock: Connection, addr: Any) -> None:
        """Serves or refuses requests until one is for Gunicorn. Raises StopIteration if none
        comes."""
        shedder = self.wsgi.load_shedder
        while self.alive:
            data = sock.recv_next(_READ_BYTES, self.cfg.keepalive)
            if not data or (shedder.is_likely and has_gone(sock)):
                raise StopIteration
            if data.endswith(b"\r\n\r\n") and is_head(data):
                with Timeout(_BODY_S, False):
                    data += sock.recv(_READ_BYTES)
            message, answer = read_message(data), None
            connection = "keep-alive" if self.alive else "close"
            if message and shedder.is_likely:
                answer = shedder.answer(message)
            if message and not answer and self._is_direct:
                answer = self._answer_request(message, sock, addr, connection)
            if not answer:
                sock.put_back(data)
                return
            send_all(sock, answer)
            if connection == "close":
                raise StopIteration

    def _answer_request(
        self, message: Message, sock: Connection, addr: Any, connection: str
    ) -> bytes:
        """The application's answer, with the headers that Gunicorn adds."""
        lines: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            lines.append(f"HTTP/1.1 {status}\r\nServer: gunicorn")
            lines.append(f"Date: {_write_date(int(time.time()))}")
            lines.append(f"Connection: {connection}")
            lines.extend(f"{name}: {value}" for name, value in headers)

        environ = self._environ | message.environ
        environ["PATH_INFO"] = environ["RAW_URI"] = message.path
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = addr[0], str(addr[1])
        environ["wsgi.input"] = WholeBody(message.body)
        environ["gunicorn.socket"] = sock
        content = self.wsgi(environ, start)
        try:
            body = b"".join(content)
        finally:
            if hasattr(content, "close"):
                content.close()
        return "\r\n".join((*lines, "", "")).encode("latin-1") + body

    def handle_error(
        self, req: Any, client: Any, addr: Any, exc: BaseException
    ) -> None:
        """Answers a request that did not reach the application, or that failed in it."""
        if isinstance(exc, GreenletExit):
            return  # an idle connection, and this worker ends
        problem = explain(exc)
        if isinstance(problem, InternalError):
            self.log.error("a request failed in Gunicorn: %s", describe(exc))
        else:
            self.log.warning("a request cannot be read: %s", type(exc).__name__)
        try:
            answer = render(problem, getattr(req, "path", ""))
            util.write_nonblock(client, answer)
        except OSError:
            self.log.debug("the client has gone before its error was sent")


class EmbeddedWorker(ProblemWorker):
    """For models in this process. gevent patches nothing, so threads are real and the model
    runs beside the greenlets.

    Gunicorn uses gevent's sockets by name. Only the client of TorchServe would need patched
    ones.
    """

    def patch(self) -> None:
        """Turns only the listening sockets into gevent's."""
        self.sockets = [
            socket.socket(s.FAMILY, socket.SOCK_STREAM, fileno=s.sock.detach())
            for s in self.sockets  # type: ignore[has-type]
        ]


@lru_cache(1)
def _write_date(now_s: int) -> str:
    return formatdate(now_s, usegmt=True)


def linger(client: Any) -> None:
    """Ends an answer and waits until the client has read it: closing a connection with
    unread bytes would reset it, and nginx takes a gateway for dead that it cannot write to."""
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)
        while client.recv(1 << 16):
            pass


def refuse(client: Any) -> None:
    """Reads a request's beginning and refuses it."""
    with Timeout(_REFUSAL_S, False):
        line = client.recv(1 << 16).partition(b"\r\n")[0].decode("latin-1")
        path = re.split(r"[? ]", line.partition(" ")[2], maxsplit=1)[0]
        told = "The gateway has as many connections as it takes."
        client.sendall(render(TooManyConnections(told), path))
        linger(client)


def explain(error: BaseException) -> Problem:
    """Our answer to what Gunicorn raises. Its `InvalidResponseHeader` is about a header of
    ours, not the client's."""
    match error:
        case LimitRequestLine() | LimitRequestHeaders():
            return HeaderTooLarge("The URL or the headers are too long.")
        case InvalidResponseHeader() | InvalidResponseHeaderName():
            pass
        case ParseException():
            return MalformedRequest("The request is not HTTP that this server reads.")
    return InternalError("The gateway failed on this request.")


def render(problem: Problem, path: str) -> bytes:
    """A whole HTTP answer that says what is wrong, to a request for `path`. It ends the
    connection."""
    request_id = uuid.uuid4().hex
    headers = {"Connection": "close", "X-Request-ID": request_id, **problem.headers}
    document = problem.to_document(request_id=request_id)
    return find_dialect(path).answer(document).write(headers)
