"""The ingress addresses of a cluster: which one a row is sent to first, and which of them
rest because nobody answered there.
"""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import urllib3

from gateway.backends.backend import Call
from gateway.backends.http_pool import Channel, ConnectError, HealthProbe, Option

log = logging.getLogger(__name__)

#: How long an address rests. Then one row tries it, while the others still avoid it.
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
    #: 0 while it is well.
    rests_until: float = 0.0

    def call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: bytes | None = None,
        until: float,
        call: Call | None = None,
        doubt: HealthProbe | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Call the address. A refused key is read again first."""
        while True:
            key = str(self.key)
            try:
                response = self.channel.call(
                    method,
                    path,
                    {"Authorization": f"Bearer {key}", **headers},
                    body=body,
                    until=until,
                    call=call,
                    doubt=doubt,
                )
            except ConnectError:
                self._rest()
                raise
            self._revive()
            is_refused = response.status == HTTPStatus.UNAUTHORIZED
            if not is_refused or not self.key.read_again(key):
                return response

    def _rest(self) -> None:
        if not self.rests_until:
            log.warning("%s cannot be reached; others are asked", self.channel.url)
        self.rests_until = time.monotonic() + _REST_S

    def _revive(self) -> None:
        if self.rests_until:
            log.warning("%s can be reached again", self.channel.url)
            self.rests_until = 0.0


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
        now = time.monotonic()
        order = self.list_well_first()
        rested = (each for each in order if 0.0 < each.rests_until <= now)
        if tried := next(rested, None):
            tried.rests_until = now + _REST_S
            order.remove(tried)
            order.insert(0, tried)
        return order

    def list_well_first(self) -> list[Address]:
        """The same order for those who only look, and try none for others."""
        shuffled = random.sample(self._all, len(self._all))
        return sorted(shuffled, key=lambda address: address.rests_until)
