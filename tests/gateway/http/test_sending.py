"""The limit of a body's silence, and the end of its connection."""

import gevent
import pytest
from gevent import socket

from gateway.http.sending import Connection, LeastRate, Silence, TooSlow


@pytest.fixture
def pair():
    """Our end of a connection, and the client's."""
    ours, theirs = socket.socketpair()
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
