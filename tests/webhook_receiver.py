"""A scripted HTTPS server that receives webhooks."""

import base64
import hmac
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_server import FAULTS, LIMIT_S, ScriptedHandler, ScriptedServer

KEY = b"0123456789abcdef01234567"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@dataclass(frozen=True)
class Notice:
    """A request to a webhook."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    def read(self) -> Any:
        """Check the signature, and return the JSON."""
        name, sent_at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        signed = f"{name}.{sent_at}.".encode() + self.body
        digest = base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
        assert self.headers["webhook-signature"] == f"v1,{digest}"
        return json.loads(self.body)


@dataclass(kw_only=True)
class WebhookReceiver(ScriptedServer):
    """A receiver with the certificate `pair`, as `make_certificate` returns it."""

    pair: str
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.pair.split(","))
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )

    @property
    def url(self) -> str:
        return self.server.url.replace("http", "https")


class _Handler(ScriptedHandler):
    def do_POST(self) -> None:
        notice = Notice(self.path, dict(self.headers.items()), self.read_body())
        self.fake.take(notice, self.fake.notices)(self)


def _repeat(start: bytes, more: bytes, pause_s: float = 0.01) -> Callable[..., None]:
    """Return a behaviour that answers without end."""

    def repeat(handler: ScriptedHandler) -> None:
        handler.close_connection = True
        with suppress(OSError):
            handler.wfile.write(start)
            while not handler.fake.ending.wait(pause_s):
                handler.wfile.write(more)

    return repeat


def _reply(status: int, **headers: str) -> Callable[..., None]:
    return lambda handler: handler.reply(status, b"", headers)


WebhookReceiver.handler = _Handler
WebhookReceiver.behaviours = {
    "take": _reply(200),
    "fail": _reply(500),
    "gone": _reply(410),
    "redirect": _reply(307, Location="/elsewhere"),
    "drip": _repeat(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "go on": _repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "bad head": _repeat(b"HTTP/1.1 500 No\r\n\x01 x\r\nX\r\n\r\n", b"", LIMIT_S),
    "long head": _repeat(b"HTTP/1.1 200 OK\r\nX: ", bytes(1 << 16)),
    "huge": _repeat(b"HTTP/1.1 200 OK\r\n\r\n", bytes(1 << 20)),
    "hang": FAULTS["hang"],
}
