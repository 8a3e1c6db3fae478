"""A client's connection: slow clients, and disconnects."""

import socket

import gevent
import pytest
from gevent import socket as gevent_socket
from gevent.event import Event

from gateway.http.connection import (
    Connection,
    DisconnectWatcher,
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


@pytest.mark.parametrize(
    ("pieces", "left_s"),
    [
        pytest.param([(8, 1024), (1, 4096)], 6, id="bytes earn what silence spends"),
        pytest.param([(1, 1_000_000)], 10, id="no more than the grace"),
        pytest.param([(1, 512)] * 18, 1, id="a trickle uses the grace up"),
    ],
)
def test_silence_has_a_grace(pieces: list[tuple[float, int]], left_s: float):
    silence = Silence(10)
    for seconds, size in pieces:
        silence.count(seconds, size)
    assert silence.left_s == left_s


def test_silence_that_is_longer_is_too_slow(pair):
    ours, _ = pair
    with ours.bear(Silence(0.01), 100), pytest.raises(TooSlow):
        ours.recv(10)


def test_what_is_there_is_read_even_where_we_were_too_slow_to_look(pair):
    ours, theirs = pair
    silence = Silence(0)
    gevent.spawn(theirs.sendall, b"Hello")
    with ours.bear(silence, 100):
        gevent.sleep(0)
        assert ours.recv(10) == b"Hello"


def test_no_more_is_read_than_was_asked_for_and_afterwards_anything(pair):
    ours, theirs = pair
    theirs.sendall(b"Hello" * 10)
    with ours.bear(Silence(60), 7):
        assert len(ours.recv(1 << 20)) == 7
    assert len(ours.recv(1 << 20)) == 43


def test_the_slowest_of_many_clients_is_cut_off(pair, monkeypatch):
    monkeypatch.setattr("gateway.http.connection._MOST_UNSENT", 3 << 20)
    monkeypatch.setattr("gateway.http.connection._PATIENCE_S", 0.05)
    (slow, _), (ours, theirs) = pair, gevent_socket.socketpair()
    with Connection(fileno=ours.detach()) as fast, theirs:
        slow.unsent = fast.unsent = {}
        cut = gevent.spawn(slow.sendall, bytes(2 << 20))
        gevent.sleep(0.1)
        sent = gevent.spawn(fast.sendall, bytes(2 << 20))
        with pytest.raises(OSError, match="closed in another greenlet"):
            cut.get(timeout=60)
        while not sent.ready():
            theirs.recv(1 << 20)
        assert sent.successful()
        assert not fast.unsent


def test_a_client_has_gone_once_it_has_closed_even_where_something_is_unread():
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            assert not has_gone(ours)
            theirs.sendall(b"unread")
            assert not has_gone(ours)
        assert has_gone(ours)
    assert has_gone(ours), "ours is closed as well"
    assert not has_gone(None), "there is none"


@pytest.mark.parametrize("how", ["closes", "ends writing"])
def test_a_client_that_goes_is_noticed_and_what_it_still_sends_is_not_read(how: str):
    server, client = socket.socketpair()
    gone = Event()
    with server, client:
        DisconnectWatcher().watch(server, gone.set)
        client.sendall(b"more")
        gevent.idle()
        assert not gone.is_set()
        assert server.recv(10) == b"more"
        client.close() if how == "closes" else client.shutdown(socket.SHUT_WR)
        assert gone.wait(60)


def test_after_the_request_nobody_is_told():
    server, client = socket.socketpair()
    told: list[None] = []
    watcher, tell = DisconnectWatcher(), lambda: told.append(None)
    watcher.forget(
        watcher.watch(None, tell), tell
    )  # without a connection nothing is watched
    with server:
        watcher.forget(watcher.watch(server, tell), tell)
        client.close()
        gevent.idle()
        watched = watcher.watch(server, tell)
        gevent.idle()
        gevent.sleep(0)
        watcher.forget(watched, tell)
    assert len(told) <= 1
