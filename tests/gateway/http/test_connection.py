"""A client's connection: its silence, and its end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import gevent
import pytest
from gevent import socket as gevent_socket
from gevent.event import Event

from gateway.http.connection import (
    Connection,
    DisconnectWatcher,
    LeastRate,
    Silence,
    TooSlow,
    has_gone,
)


@pytest.fixture
def pair():
    """Our end of a connection, and the client's."""
    ours, theirs = gevent_socket.socketpair()
    with Connection(fileno=ours.detach()) as connection, theirs:
        yield connection, theirs


def test_bytes_earn_what_silence_spends():
    silence = Silence(LeastRate(bytes_per_s=100, grace_s=10))
    silence.count(8, 100)
    assert silence.left_s == 3
    silence.count(1, 400)
    assert silence.left_s == 6


def test_no_more_is_earned_than_the_grace():
    silence = Silence(LeastRate(bytes_per_s=100, grace_s=10))
    silence.count(1, 1_000_000)
    assert silence.left_s == 10


def test_a_trickle_uses_the_grace_up():
    silence = Silence(LeastRate(bytes_per_s=100, grace_s=10))
    pieces = 0
    while silence.left_s > 1:
        silence.count(1, 50)
        pieces += 1
    assert pieces == 18


def test_silence_that_is_longer_is_too_slow(pair):
    ours, _ = pair
    with ours.bear(Silence(LeastRate(0.01, 1)), 100), pytest.raises(TooSlow):
        ours.recv(10)


def test_what_is_there_is_read_even_where_we_were_too_slow_to_look(pair):
    ours, theirs = pair
    silence = Silence(LeastRate(0, 1))
    gevent.spawn(theirs.sendall, b"Hello")
    with ours.bear(silence, 100):
        gevent.sleep(0)
        assert ours.recv(10) == b"Hello"


def test_no_more_is_read_than_was_asked_for_and_afterwards_anything(pair):
    ours, theirs = pair
    theirs.sendall(b"Hello" * 10)
    with ours.bear(Silence(LeastRate(60, 1)), 7):
        assert len(ours.recv(1 << 20)) == 7
    assert len(ours.recv(1 << 20)) == 43


def test_a_client_has_gone_once_it_has_closed_even_where_something_is_unread():
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            assert not has_gone(ours)
            theirs.sendall(b"unread")
            assert not has_gone(ours)
        assert has_gone(ours)
    assert has_gone(ours), "ours is closed as well"


def test_where_there_is_no_connection_nobody_has_gone():
    assert not has_gone(None)


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
