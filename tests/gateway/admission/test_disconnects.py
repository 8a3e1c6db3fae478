"""Clients that go are noticed while their requests wait."""

from __future__ import annotations

import socket
from collections.abc import Callable

import gevent
import pytest
from gevent.event import Event

from gateway.admission.disconnects import DisconnectWatcher


def close(client: socket.socket) -> None:
    client.close()


def end_writing(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("leave", [close, end_writing])
def test_whoever_goes_is_noticed_once(leave: Callable[[socket.socket], None]):
    server, client = socket.socketpair()
    gone = Event()
    with server, client, DisconnectWatcher().watch(server, gone.set):
        gevent.idle()
        assert not gone.is_set()
        leave(client)
        assert gone.wait(60)


def test_what_a_client_still_sends_is_no_departure_and_is_not_read():
    server, client = socket.socketpair()
    gone = Event()
    with server, client, DisconnectWatcher().watch(server, gone.set):
        client.sendall(b"more")
        gevent.idle()
        assert not gone.is_set()
        assert server.recv(10) == b"more"


def test_after_the_request_nobody_is_told():
    server, client = socket.socketpair()
    told: list[None] = []
    departures = DisconnectWatcher()
    with server:
        with departures.watch(server, lambda: told.append(None)):
            pass
        client.close()
        gevent.idle()
        with departures.watch(server, lambda: told.append(None)):
            gevent.idle()
            gevent.sleep(0)
    assert len(told) <= 1


def test_a_connection_that_is_not_there_is_not_watched():
    with DisconnectWatcher().watch(None, lambda: None):
        pass
