"""A timed socket tells a client that reads late from a server that answers late."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks.instruments.timed_socket import TimedSocket
from tests.e2e.real_stack import wait_until

Pair = tuple[TimedSocket, socket.socket]


def read_into(client: TimedSocket) -> bytes:
    place = bytearray(9)
    return bytes(place[: client.recv_into(place)])


READS: dict[str, Callable[[TimedSocket], bytes]] = {
    "recv": lambda client: client.recv(9),
    "recv_into": read_into,
}


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A client's end of a connection, and the server's."""
    with socket.create_server(("127.0.0.1", 0)) as listening, TimedSocket() as client:
        client.connect(listening.getsockname())
        server, _ = listening.accept()
        with server:
            yield client, server


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_answer_has_arrived_before_it_is_read(pair: Pair, read):
    client, server = pair

    def is_timed() -> bool:
        """The kernel begins to note times soon after the first who asks for them."""
        server.sendall(b"answer")
        sent_at = time.monotonic()
        assert read(client) == b"answer"
        return 0 < client.arrived_at <= sent_at

    wait_until(is_timed)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_end_of_a_connection_is_no_arrival(pair: Pair, read):
    client, server = pair
    server.sendall(b"answer")
    assert read(client) == b"answer"
    arrived_at = client.arrived_at
    server.close()
    assert read(client) == b""
    assert client.arrived_at == arrived_at
