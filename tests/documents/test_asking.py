"""A gateway that is busy is waited for; a text that cannot be done is divided or refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from documents.asking import (
    ConcurrencyLimit,
    DocumentOptions,
    Gateway,
    TranslationRefused,
)
from documents.storage import Order
from tests.documents.fake_gateway import Failure

WANTED = DocumentOptions(
    Order("0" * 32, "open", "c", "::1", "a.txt", "de"), "en", "text"
)
LATE = Failure(504, "deadline", "Too late.")
FULL = Failure(429, "queue-full", headers={"Retry-After": "60"})
OUT_OF_MEMORY = Failure(503, "out-of-memory", "src_text[0]: does not fit.")
NOT_READY = Failure(503, "not-ready")


@pytest.fixture(autouse=True)
def long_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours are a few requests."""
    monkeypatch.setattr("documents.asking._LONGEST_DELAY_S", 600.0)


class Waits:
    """Waiting takes no time, but is counted."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0

    def __call__(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


@pytest.fixture
def waits() -> Waits:
    return Waits()


def count_sentences(texts: list[str]) -> int:
    return sum(text.count(".") for text in texts)


@pytest.mark.parametrize("failure", [LATE, FULL, OUT_OF_MEMORY, Failure(413)])
def test_a_text_that_is_too_much_is_divided_by_its_sentences(
    asking, gateway, waits, failure
):
    gateway.judge = lambda texts: failure if count_sentences(texts) > 3 else None
    text = " ".join(f"This is sentence number {n}." for n in range(20))
    (found,) = asking.translate([text], WANTED, waits, ConcurrencyLimit())
    assert found == text.upper()


@pytest.mark.parametrize(
    ("failure", "most_requests"), [(LATE, 20), (OUT_OF_MEMORY, 20), (FULL, 100)]
)
def test_a_sentence_that_cannot_be_done_is_refused_in_the_end(
    asking, gateway, waits, failure, most_requests
):
    gateway.judge = lambda texts: failure
    with pytest.raises(TranslationRefused) as caught:
        asking.translate(["One sentence"], WANTED, waits, ConcurrencyLimit())
    assert caught.value.problem["type"] == f"urn:babelgate:{failure.slug}"
    assert len(gateway.asked) <= most_requests


@pytest.mark.parametrize("failure", [LATE, OUT_OF_MEMORY])
def test_it_is_refused_sooner_where_others_are_translated(
    asking, gateway, waits, failure
):
    pace = ConcurrencyLimit()

    def judge(texts: list[str]):
        pace.quicken()  # as another request of the document does
        return failure

    gateway.judge = judge
    with pytest.raises(TranslationRefused):
        asking.translate(["One sentence"], WANTED, waits, pace)
    assert len(gateway.asked) == 5


def test_the_place_of_a_sentence_is_that_of_its_text(asking, gateway, waits):
    gateway.judge = lambda texts: LATE if "Bad" in " ".join(texts) else None
    texts = ["Good.", "Fine. Better.", "One. Bad. Three."]
    with pytest.raises(TranslationRefused) as caught:
        asking.translate(texts, WANTED, waits, ConcurrencyLimit())
    assert caught.value.index == 2


def test_a_gateway_that_starts_again_for_an_hour_is_waited_for(asking, gateway, waits):
    gateway.judge = lambda texts: NOT_READY if waits.seconds < 3_600 else None
    assert asking.translate(["one"], WANTED, waits, ConcurrencyLimit()) == ["ONE"]


def test_a_busy_gateway_is_waited_for(asking, gateway, waits):
    gateway.judge = lambda texts: FULL if waits.seconds < 1_800 else None
    texts = ["One.", "Two."]
    assert asking.translate(texts, WANTED, waits, ConcurrencyLimit()) == [
        "ONE.",
        "TWO.",
    ]


@pytest.fixture
def unanswered() -> Iterator[tuple[socket.socket, Gateway]]:
    """An address where nobody answers, and where nobody listens either at first."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        gateway = Gateway(f"127.0.0.1:{server.getsockname()[1]}", "secret", 1)
        yield server, gateway
        gateway.close()


def test_a_gateway_that_is_gone_is_given_up_after_a_day(unanswered, waits):
    _, gateway = unanswered
    with pytest.raises(TranslationRefused) as caught:
        gateway.translate(["one"], WANTED, waits, ConcurrencyLimit())
    assert caught.value.problem["type"] == "urn:babelgate:not-ready"
    assert waits.seconds >= 86_400


def test_that_a_gateway_is_silent_may_be_the_fault_of_the_text(
    unanswered, waits, monkeypatch
):
    monkeypatch.setattr("documents.asking._ANSWER_S", 0.01)
    server, gateway = unanswered
    server.listen(100)
    with pytest.raises(TranslationRefused) as caught:
        gateway.translate(["one"], WANTED, waits, ConcurrencyLimit())
    assert caught.value.problem["type"] == "urn:babelgate:deadline"
