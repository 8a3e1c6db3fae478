"""The order of the loop's work, and its refusals."""

from __future__ import annotations

import socket
from collections import Counter

import gevent
import pytest
from gevent.socket import wait_read

from gateway.admission.loop_queue import LoopQueue, _cut
from gateway.errors import ClientGone, DeadlineExceeded, Overloaded
from gateway.http.call import Call
from tests.gateway.calls import make_call, make_gone
from text.langid import Guess, Identifier

#: A text of these characters is a slice of its own.
LONG = "a" * 2000
LIMIT_S = 60


class Crowd:
    """Clients that have texts identified, and what was done for each."""

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


def test_short_texts_share_a_slice():
    assert [len(part.texts) for part in _cut(["a" * 20] * 250, len)] == [100, 100, 50]


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
    with pytest.raises(Overloaded, match="takes about") as caught:
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
def test_for_whoever_does_not_wait_nothing_is_done(
    caller: Call, problem: type[Exception], is_first: bool
):
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

    def refuse(*_: object) -> None:
        raise Overloaded("", retry_after_s=7)

    monkeypatch.setattr(LoopQueue, "_check", refuse)
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")


def test_the_language_of_a_text_is_looked_for_once(client, monkeypatch):
    ranked: list[str] = []
    rank = Identifier.rank

    def count(self: Identifier, text: str) -> list[Guess]:
        ranked.append(text)
        return rank(self, text)

    monkeypatch.setattr(Identifier, "rank", count)
    texts = ["Taxi", "12", "Where is the station?"]
    asked = {"text": texts, "target_lang": "KO"}
    assert client.post("/v2/translate", json=asked).status_code == 200
    asked = {"q": texts, "source": "auto", "target": "ko"}
    assert client.post("/translate", json=asked).status_code == 200
    assert ranked == texts * 2
