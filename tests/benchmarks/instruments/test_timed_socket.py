"""The time at which the kernel had what a client reads."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from benchmarks.instruments.timed_socket import TimedSocket
from tests.e2e.real_stack import wait_until


def read_into(client: TimedSocket) -> bytes:
    place = bytearray(9)
    return bytes(place[: client.recv_into(place)])


READS: dict[str, Callable[[TimedSocket], bytes]] = {
    "recv": lambda client: client.recv(9),
    "recv_into": read_into,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_answer_arrives_before_it_is_read_and_the_end_is_no_arrival(read):
    with socket.create_server(("127.0.0.1", 0)) as listening, TimedSocket() as client:
        client.connect(listening.getsockname())
        server, _ = listening.accept()

        def is_timed() -> bool:
            """The kernel begins to note times soon after the first who asks for them."""
            server.sendall(b"answer")
            sent_at = time.monotonic()
            assert read(client) == b"answer"
            return 0 < client.arrived_at <= sent_at

        with server:
            wait_until(is_timed)
            arrived_at = client.arrived_at
        assert read(client) == b""
        assert client.arrived_at == arrived_at
