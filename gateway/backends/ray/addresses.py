"""The ingress addresses of a cluster: which one a row is sent to first, and which of them
rest because nobody answered there.
"""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gateway.backends.http_pool import Channel, ConnectError, HttpReply, Option
from gateway.backends.ray.circuit_breaker import CircuitBreaker

log = logging.getLogger(__name__)

#: The time for which an address rests. Then one row tries it, while the others still
#: avoid it.
_REST_S = 5.0
#: A machine with a slow model acknowledges what is sent, and one behind a cut link does
#: not. After so long without a sign of life a connection is given up, also an idle one.
_CUT_S, _FIRST_PROBE_S, _PROBE_EVERY_S = 6, 3, 1
_OPTIONS: Sequence[Option] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _FIRST_PROBE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _CUT_S * 1000),
)


class GatewayKey:
    """The key by which replicas know the gateway."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._content = self._read()

    def __str__(self) -> str:
        return self._content

    def read_again(self, refused: str) -> bool:
        """Whether there is another key by now than the one that was refused."""
        self._content = self._read()
        return self._content != refused

    def _read(self) -> str:
        """Empty where there is none yet."""
        try:
            return self._file.read_text("utf-8").strip()
        except (OSError, ValueError):
            return ""


@dataclass(eq=False)
class Address:
    """One of them."""

    channel: Channel
    key: GatewayKey
    breaker: CircuitBreaker = field(default_factory=lambda: CircuitBreaker(_REST_S))

    def call(
        self, method: str, path: str, headers: dict[str, str], **options: Any
    ) -> HttpReply:
        """Call as `Channel.call` does. A refused key is read again first."""
        while True:
            key = str(self.key)
            named = headers | {"Authorization": f"Bearer {key}"}
            try:
                reply = self.channel.call(method, path, named, **options)
            except ConnectError:
                if not self.breaker.is_open:
                    log.warning(
                        "%s cannot be reached; others are asked", self.channel.url
                    )
                self.breaker.open()
                raise
            if self.breaker.is_open:
                log.warning("%s can be reached again", self.channel.url)
                self.breaker.close()
            is_refused = reply.status == HTTPStatus.UNAUTHORIZED
            if not is_refused or not self.key.read_again(key):
                return reply


class Addresses:
    """All of them. Safe to share among greenlets."""

    def __init__(
        self, urls: Sequence[str], key: GatewayKey, *, connections: int
    ) -> None:
        self._all = [
            Address(Channel(url, connections=connections, options=_OPTIONS), key)
            for url in urls
        ]

    def arrange(self) -> list[Address]:
        """The order in which a row asks them: those that are well, in any order, and then
        those that rest. The first of those that have rested goes before all."""
        order = self.list_well_first()
        if tried := next((each for each in order if each.breaker.let_one_try()), None):
            order.remove(tried)
            order.insert(0, tried)
        return order

    def list_well_first(self) -> list[Address]:
        """The same order for those who only look, and try none for others."""
        shuffled = random.sample(self._all, len(self._all))
        return sorted(shuffled, key=lambda address: address.breaker.rests_until)
