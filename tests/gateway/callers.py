"""Clients as the gateway sees them."""

from __future__ import annotations

import socket
import time

from gateway.http.caller import Caller


def make_caller(
    limit_s: float = 60.0,
    *,
    address: str = "192.0.2.1",
    client: socket.socket | None = None,
) -> Caller:
    return Caller(address, limit_s, time.monotonic() + limit_s, client)


def make_gone() -> Caller:
    """A client that has closed its connection; its socket is no longer open here either."""
    client, other = socket.socketpair()
    other.close()
    client.close()
    return make_caller(client=client)
