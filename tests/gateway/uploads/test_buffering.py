"""The order in which uploads wait for a process's limited memory."""

import time
from contextlib import closing

import gevent
import pytest
from gevent import Greenlet
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import DeadlineExceeded
from gateway.uploads.images import Buffer, UploadShare

LATER = time.monotonic() + 3600


def settle() -> None:
    """Let every greenlet run until it waits."""
    gevent.sleep(0)
    gevent.idle()


def test_what_the_oldest_upload_needs_is_kept_for_it():
    buffer = Buffer(20, 10)
    oldest, other = (UploadShare(buffer, LATER) for _ in range(2))
    oldest.grow(4)
    other.grow(10)
    waiting = gevent.spawn(other.grow, 1)
    settle()
    assert not waiting.ready()  # 6 are free, and the oldest may need them
    oldest.grow(6)
    assert not waiting.ready()
    sent = oldest.send(kept=0)
    assert not waiting.ready()
    oldest.release(sent)
    waiting.get(timeout=60)


def test_a_small_upload_does_not_pass_a_large_one_that_waits():
    buffer = Buffer(20, 8)
    first, second, third = (UploadShare(buffer, LATER) for _ in range(3))
    for _ in range(2):
        first.grow(8)
        first.send(kept=0)
    large, small = gevent.spawn(second.grow, 8), gevent.spawn(third.grow, 1)
    settle()
    assert not large.ready()
    assert not small.ready()
    first.release(8)
    large.get(timeout=60)


def test_who_is_late_or_ended_while_it_waits_leaves_the_queue():
    buffer = Buffer(10, 8)
    share, other = (UploadShare(buffer, LATER) for _ in range(2))
    share.grow(8)
    late = UploadShare(buffer, time.monotonic() + 0.01)
    with pytest.raises(DeadlineExceeded):
        late.grow(3)
    waiting = gevent.spawn(other.grow, 5)
    settle()
    waiting.kill()
    for _ in range(2):
        share.release(share.send(kept=0))
        share.grow(8)


LARGEST, AHEAD = 12, 3


@given(
    size=st.integers(LARGEST + AHEAD, 3 * LARGEST),
    uploads=st.lists(
        st.lists(
            st.lists(st.integers(1, 6), max_size=5).filter(
                lambda pieces: sum(pieces) <= LARGEST
            ),
            max_size=4,
        ),
        max_size=8,
    ),
    order=st.randoms(use_true_random=False),
)
def test_nobody_waits_for_ever_and_nobody_holds_too_much(size, uploads, order):
    """Each upload has rows, each row pieces; rows are answered in any order, some late."""
    buffer = Buffer(size, LARGEST + AHEAD)
    held = most = 0
    answers: list[tuple[UploadShare, int]] = []

    def upload(rows: list[list[int]]) -> None:
        nonlocal held, most
        with closing(UploadShare(buffer, LATER)) as share:
            for _ in range(AHEAD):
                share.grow(1)
                gevent.sleep(0)
            for row in rows:
                for piece in row:
                    share.grow(piece)
                    held += piece
                    most = max(most, held)
                    gevent.sleep(0)
                answers.append((share, share.send(kept=AHEAD)))

    running: list[Greenlet] = [gevent.spawn(upload, rows) for rows in uploads]
    while not all(greenlet.ready() for greenlet in running) or answers:
        settle()
        assert answers or all(greenlet.ready() for greenlet in running)
        if answers:
            share, count = answers.pop(order.randrange(len(answers)))
            held -= count
            share.release(count)
    gevent.joinall(running, raise_error=True)
    assert most <= size
