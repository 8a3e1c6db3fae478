"""The order of turns."""

from __future__ import annotations

import pytest

from gateway.admission.queue import ClientQueue, FairQueue


@pytest.fixture
def queue() -> FairQueue[str]:
    return FairQueue()


def drain(queue: FairQueue[str]) -> list[str]:
    taken = []
    while queue:
        taken.append(queue.pop())
    return taken


def test_a_client_that_comes_later_does_not_wait_for_the_whole_queue_of_another(queue):
    for _ in range(1000):
        queue.push(ClientQueue("greedy"), 1, "greedy")
    for _ in range(10):
        queue.pop()
    queue.push(ClientQueue("modest"), 1, "modest")
    assert "modest" in [queue.pop(), queue.pop()]


def test_work_counts_and_not_items(queue):
    for _ in range(100):
        queue.push(ClientQueue("long"), 10, "long")
        queue.push(ClientQueue("short"), 1, "short")
    first = drain(queue)[:55]
    assert first.count("short") == pytest.approx(50, abs=2)


def test_short_requests_have_four_times_the_share_of_bulk(queue):
    for _ in range(100):
        queue.push(ClientQueue("a", is_bulk=True), 1, "bulk")
        queue.push(ClientQueue("a"), 1, "short")
    assert drain(queue)[:50].count("short") == pytest.approx(40, abs=2)


def test_a_client_that_was_idle_has_saved_no_share(queue):
    for _ in range(100):
        queue.push(ClientQueue("busy"), 1, "busy")
        queue.pop()
    for _ in range(10):
        queue.push(ClientQueue("busy"), 1, "busy")
        queue.push(ClientQueue("idle"), 1, "idle")
    assert drain(queue)[:10].count("busy") == pytest.approx(5, abs=1)


def test_clients_that_come_and_go_do_not_keep_a_second_item_waiting(queue):
    for item in ("first", "second"):
        queue.push(ClientQueue("a"), 1, item)
    taken = []
    for number in range(10):
        queue.push(ClientQueue(str(number)), 1, "other")
        taken.append(queue.pop())
    assert "second" in taken


def test_items_of_one_client_and_clients_with_one_item_each_come_in_their_order(queue):
    for number in range(100):
        queue.push(ClientQueue(str(number)), 1 + number % 7, f"{number}")
    assert drain(queue) == [str(number) for number in range(100)]
    for item in "abcd":
        queue.push(ClientQueue("a"), 1, item)
    assert drain(queue) == list("abcd")


def test_clients_that_have_gone_are_forgotten_before_and_when_the_queue_is_empty(queue):
    queue.push(ClientQueue("first"), 1, "x")
    for number in range(5000):
        queue.push(ClientQueue(str(number)), 1, "x")
        queue.pop()
    assert queue
    assert len(queue._ends) < 2000
    drain(queue)
    assert not queue._ends
