"""Gunicorn's gevent worker with eight changes: requests that Gunicorn cannot parse or has no
capacity for get a problem document, small translation requests skip Gunicorn's parser, slow
bodies are detected, clients receive answers sent before the body's end, a starting worker can
be stopped, a stopping one answers on all connections, one that reaches `max_requests` lets idle
ones end first, and logs never quote error messages."""

import re
import signal
import sys
import time
import uuid
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

from gevent import GreenletExit, Timeout, socket, spawn_later
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
from gateway.http.connection import Connection, has_gone
from gateway.http.message import Message, WholeBody, is_head, read_message
from gateway.redaction import describe, reduce_logs

# Nothing that opens sockets is imported here: gevent has not patched them yet.

#: Surplus connections that are refused at the same time, and the time limit of each in seconds.
#: Further ones wait to be accepted.
_REFUSED_AT_ONCE, _REFUSAL_S = 256, 2
#: Seconds for which a client may continue to send a body that has failed.
_REST_S = 10
#: Bytes read before Gunicorn gets a request, and seconds by which a body may follow its head.
_READ_BYTES, _BODY_S = 8192, 0.05

#: Settings for single requests, which only Gunicorn's own code applies.
_PER_REQUEST = """accesslog header_map limit_request_field_size limit_request_fields logconfig
    logconfig_dict logconfig_json logger_class max_requests post_request pre_request
    proxy_protocol statsd_host syslog""".split()


class ProblemWorker(GeventWorker):  # type: ignore[misc]
    """The worker class named in gunicorn.conf.py."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most: int = self.cfg.worker_connections
        self._open = 0
        self._unsent: dict[Connection, tuple[float, int]] = {}
        self._turn, self.max_requests = self.max_requests, sys.maxsize  # type: ignore[has-type]
        # Gunicorn accepts no more connections than these, and does not answer others.
        self.worker_connections = self._most + _REFUSED_AT_ONCE

    def init_process(self) -> None:
        # Until Gunicorn sets a worker's signal handlers, it has the master's, which only queue
        # signals: a starting worker would ignore SIGTERM, and the master would wait for it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        reduce_logs()
        settings = self.cfg.settings
        # Gunicorn looks up a setting through two functions, dozens of times for each request.
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
        """Serve until the worker is stopped, and then the open connections."""
        # Gunicorn gets a listener's name at the first request that it reads from a connection.
        # In a stopping worker, the listener is closed by then, and nginx would get no answer.
        names = {s: s.getsockname() for s in self.sockets}
        self._names = {
            s: SimpleNamespace(getsockname=partial(names.get, s)) for s in names
        }
        super().run()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        if self._open >= self._most:
            with suppress(OSError):
                refuse(client)
            return
        self._open += 1
        connection = Connection(fileno=client.detach())
        connection.unsent = self._unsent
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
        """Serve a request, then the following ones that Gunicorn need not parse."""
        should_close = req.should_close
        # Gunicorn closes the connection after a body that failed, without announcing it: nginx
        # would send the next request on it.
        is_over = self.nr + 1 >= self._turn
        req.should_close = lambda: is_over or should_close() or req.body.failed
        if self.nr + 1 == self._turn:
            # From its end on, connections are not accepted until the next worker has booted,
            # and Gunicorn boots none before the idle connections of this one have ended.
            spawn_later(self.cfg.keepalive, setattr, self, "alive", False)
        try:
            super().handle_request(listener_name, req, sock, addr)
        except StopIteration:
            if req.body.failed:
                with Timeout(_REST_S, False):
                    linger(sock)
            raise
        if getattr(req.body.reader, "length", None) == 0:  # all of its body has arrived
            sock.put_back(req.unreader.take_buffered())
            self._serve_next(sock, addr)

    def _serve_next(self, sock: Connection, addr: Any) -> None:
        """Serve or refuse requests until one is for Gunicorn. Raises StopIteration if there is
        none."""
        shedder = self.wsgi.load_shedder
        while self.alive:
            data = sock.recv_next(_READ_BYTES, self.cfg.keepalive)
            if not data or (shedder.is_likely and has_gone(sock)):
                raise StopIteration
            if data.endswith(b"\r\n\r\n") and is_head(data):
                with Timeout(_BODY_S, False):
                    data += sock.recv(_READ_BYTES)
            message = read_message(data)
            answer = None
            connection = "keep-alive" if self.alive else "close"
            if message and shedder.is_likely:
                answer = shedder.answer(message)
            if message and not answer and self._is_direct:
                answer = self._answer_request(message, sock, addr, connection)
            if not answer:
                sock.put_back(data)
                return
            sock.sendall(answer)
            if connection == "close":
                raise StopIteration

    def _answer_request(
        self, message: Message, sock: Connection, addr: Any, connection: str
    ) -> bytes:
        """Return the application's answer, with the headers that Gunicorn adds."""
        lines: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            lines.append(f"HTTP/1.1 {status}\r\nServer: gunicorn")
            lines.append(f"Date: {_write_date(int(time.time()))}")
            lines.append(f"Connection: {connection}")
            lines.extend(f"{name}: {value}" for name, value in headers)

        environ = self._environ | message.environ
        environ["PATH_INFO"] = environ["RAW_URI"] = message.path
        environ["REMOTE_ADDR"] = addr[0]
        environ["REMOTE_PORT"] = str(addr[1])
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
        """Answer a request that did not reach the application, or that failed in it."""
        if isinstance(exc, GreenletExit):
            return  # an idle connection of a stopping worker
        problem = explain(exc)
        if isinstance(problem, InternalError):
            self.log.error("a request failed in Gunicorn: %s", describe(exc))
        else:
            self.log.warning("a request could not be parsed: %s", type(exc).__name__)
        try:
            util.write_nonblock(client, render(problem, getattr(req, "path", "")))
        except OSError:
            self.log.debug("the client disconnected before its error was sent")


class EmbeddedWorker(ProblemWorker):
    """The worker for embedded models. gevent patches nothing, so threads are real and models
    run in parallel to the greenlets.

    Gunicorn imports gevent's sockets itself. Only TorchServe's client would need patched ones.
    """

    def patch(self) -> None:
        """Replace only the listening sockets by gevent's."""
        self.sockets = [
            socket.socket(s.FAMILY, socket.SOCK_STREAM, fileno=s.sock.detach())
            for s in self.sockets  # type: ignore[has-type]
        ]


@lru_cache(1)
def _write_date(now_s: int) -> str:
    return formatdate(now_s, usegmt=True)


def linger(client: Any) -> None:
    """End an answer and wait until the client has read it: closing a connection with unread
    bytes would reset it, and nginx considers a gateway that it cannot write to dead."""
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)
        while client.recv(1 << 16):
            pass


def refuse(client: Any) -> None:
    """Read the beginning of a request and refuse it."""
    with Timeout(_REFUSAL_S, False):
        line = client.recv(1 << 16).partition(b"\r\n")[0].decode("latin-1")
        path = re.split(r"[? ]", line.partition(" ")[2], maxsplit=1)[0]
        told = "The gateway has as many connections as it allows."
        client.sendall(render(TooManyConnections(told), path))
        linger(client)


def explain(error: BaseException) -> Problem:
    """Return the problem for an error of Gunicorn's. Its `InvalidResponseHeader` concerns our
    header, not the client's."""
    match error:
        case LimitRequestLine() | LimitRequestHeaders():
            return HeaderTooLarge("The URL or the headers are too long.")
        case InvalidResponseHeader() | InvalidResponseHeaderName():
            pass
        case ParseException():
            return MalformedRequest("This server cannot parse the request as HTTP.")
    return InternalError("The gateway failed on this request.")


def render(problem: Problem, path: str) -> bytes:
    """Return a whole HTTP answer with a problem for `path`. It ends the connection."""
    request_id = uuid.uuid4().hex
    headers = {"Connection": "close", "X-Request-ID": request_id, **problem.headers}
    document = problem.to_document(request_id=request_id)
    return find_dialect(path).answer(document).write(headers)
