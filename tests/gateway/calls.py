"""Clients as the gateway sees them."""

from __future__ import annotations

import socket
import time

from gateway.http.request import Call, Deadline


def make_call(
    limit_s: float = 60.0,
    *,
    address: str = "192.0.2.1",
    client: socket.socket | None = None,
) -> Call:
    return Call(address, limit_s, Deadline(time.monotonic() + limit_s), client)


def make_gone() -> Call:
    """A client that has closed its connection; its socket is no longer open here either."""
    client, other = socket.socketpair()
    other.close()
    client.close()
    return make_call(client=client)
