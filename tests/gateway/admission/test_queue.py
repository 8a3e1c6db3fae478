"""The order of work for a model and for the event loop, and refusals of the loop's work."""

import socket
from collections import Counter
from unittest.mock import Mock, create_autospec

import gevent
import pytest
from gevent.socket import wait_read

from gateway.admission.queue import ClientQueue, FairQueue, LoopQueue
from gateway.errors import ClientGone, DeadlineExceeded, Overloaded
from tests.gateway.conftest import make_call, make_gone
from text.langid import Identifier

#: A text that fills one slice of work.
LONG = "a" * 2000
LIMIT_S = 60


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


class Crowd:
    """Clients that have texts identified, and the number of texts done for each."""

    def __init__(self) -> None:
        self.queue = LoopQueue()
        self.done: Counter[str] = Counter()

    def ask(self, client: str, texts: int, text: str = LONG) -> None:
        caller = make_call(LIMIT_S, address=client)
        for _ in self.queue.take_turns([text] * texts, caller, len):
            self.done[client] += 1


def test_between_two_slices_of_whoever_it_is_others_see_what_has_arrived():
    crowd = Crowd()
    ours, theirs = socket.socketpair()
    seen: list[int] = []

    def wait() -> None:
        wait_read(ours.fileno())
        seen.append(crowd.done.total())

    def send() -> None:
        while crowd.done.total() < 100:
            gevent.sleep(0)
        seen.append(crowd.done.total())
        theirs.send(b"x")

    with ours, theirs:
        asking = [gevent.spawn(crowd.ask, str(number), 50) for number in range(20)]
        others = [gevent.spawn(wait), gevent.spawn(send)]
        gevent.joinall([*asking, *others], timeout=LIMIT_S, raise_error=True)
    sent_at, seen_at = seen
    assert seen_at - sent_at <= 5, "not a round of all twenty"
    assert crowd.done.total() == 1000


def test_clients_take_turns_however_much_each_asks():
    crowd = Crowd()
    greedy = [gevent.spawn(crowd.ask, "greedy", 50) for _ in range(20)]
    gevent.sleep(0)
    gevent.spawn(crowd.ask, "modest", 4).join(LIMIT_S)
    assert crowd.done["modest"] == 4
    assert crowd.done["greedy"] <= 12
    gevent.joinall(greedy, timeout=LIMIT_S, raise_error=True)
    assert crowd.done["greedy"] == 1000


def test_what_takes_too_long_with_what_waits_is_refused_at_once():
    crowd = Crowd()
    crowd.queue._unit_s = 0.000_1
    begun = crowd.queue.take_turns([LONG] * 300, make_call(address="a"), len)
    next(begun)
    with pytest.raises(Overloaded, match="take about") as caught:
        crowd.ask("a", 100)
    assert int(caught.value.headers["Retry-After"]) > 1
    crowd.ask("b", 3)
    begun.close()
    crowd.ask("a", 3)
    assert not crowd.queue._announced.rows


@pytest.mark.parametrize(
    ("caller", "problem"),
    [
        pytest.param(make_call(-1), DeadlineExceeded, id="late"),
        pytest.param(make_gone(), ClientGone, id="gone"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_for_whoever_does_not_wait_nothing_is_done(caller, problem, is_first):
    crowd = Crowd()
    others = [] if is_first else [gevent.spawn(crowd.ask, "b", 9) for _ in range(3)]
    gevent.sleep(0)
    with pytest.raises(problem):
        list(crowd.queue.take_turns([LONG], caller, len))
    gevent.joinall(others, timeout=LIMIT_S, raise_error=True)
    assert crowd.done.total() == 9 * len(others)
    assert not crowd.queue._announced.rows


def test_a_slice_that_was_given_up_is_passed_over():
    crowd = Crowd()
    others = [gevent.spawn(crowd.ask, "b", 30) for _ in range(3)]
    gevent.sleep(0)
    leaving = gevent.spawn(crowd.ask, "c", 30)
    gevent.sleep(0)
    leaving.kill()
    gevent.joinall(others, timeout=LIMIT_S, raise_error=True)
    assert crowd.done == {"b": 90}
    assert not crowd.queue._announced.rows


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/identify", {"src_text": "a"}),
        ("/v2/translate", {"text": ["a"], "target_lang": "KO"}),
        ("/detect", {"q": "a"}),
        ("/language/translate/v2/detect", {"q": "a"}),
    ],
)
def test_every_api_identifies_in_turns_and_says_when_to_come_again(
    client, monkeypatch, path, body
):
    assert client.post(path, json=body).status_code == 200
    refuse = Mock(side_effect=Overloaded("", retry_after_s=7))
    monkeypatch.setattr(LoopQueue, "_check_turns", refuse)
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")


def test_the_language_of_a_text_is_looked_for_once(client, monkeypatch):
    rank = create_autospec(Identifier.rank, side_effect=Identifier.rank)
    monkeypatch.setattr(Identifier, "rank", rank)
    texts = ["Taxi", "12", "Where is the station?"]
    asked = {"text": texts, "target_lang": "KO"}
    assert client.post("/v2/translate", json=asked).status_code == 200
    asked = {"q": texts, "source": "auto", "target": "ko"}
    assert client.post("/translate", json=asked).status_code == 200
    assert [call.args[1] for call in rank.mock_calls] == texts * 2
