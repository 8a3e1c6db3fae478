"""A busy gateway is retried; a text that cannot be translated is divided or refused."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from clients.server import RetryPolicy
from clients.translations import TranslationOptions
from documents.errors import TranslationFailed
from documents.gateway import DocumentTranslator, Gateway
from documents.storage import Order
from tests.fake_api import Failure, FakeApi

ORDER = Order("0" * 32, "open", "c", "::1", "a.txt", "de")
WANTED = TranslationOptions("de", "en")
LATE = Failure(504, "deadline", "Too late.")
FULL = Failure(429, "queue-full", headers={"Retry-After": "60"})
OUT_OF_MEMORY = Failure(503, "out-of-memory", "src_text[0]: does not fit.")
NOT_READY = Failure(503, "not-ready")


@dataclass
class Waits:
    """A sleep function that returns at once and counts the seconds."""

    seconds: float = 0.0

    def __call__(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def waits() -> Waits:
    return Waits()


Connect = Callable[..., DocumentTranslator]


@pytest.fixture
def connect(monkeypatch, waits) -> Iterator[Connect]:
    """Connect to an address, with retry delays so long that a few requests fill hours."""
    with ExitStack() as stack:

        def connect(address: str, timeout_s: float = 60.0) -> DocumentTranslator:
            policy = RetryPolicy(timeout_s=timeout_s, longest_delay_s=600.0)
            monkeypatch.setattr("documents.gateway._PATIENCE", policy)
            gateway = Gateway(address, "secret")
            return stack.enter_context(gateway.connect(ORDER, waits))

        yield connect


@pytest.fixture
def translator(connect: Connect, gateway: FakeApi) -> DocumentTranslator:
    return connect(gateway.address)


@pytest.mark.parametrize("failure", [LATE, FULL, OUT_OF_MEMORY, Failure(413)])
def test_a_text_that_is_too_much_is_divided_by_its_sentences(
    translator, gateway, failure
):
    gateway.judge = lambda texts: failure if "".join(texts).count(".") > 3 else None
    text = " ".join(f"This is sentence number {n}." for n in range(20))
    (found,) = translator.translate([text], WANTED)
    assert found == text.upper()


@pytest.mark.parametrize(
    ("failure", "most_requests"), [(LATE, 20), (OUT_OF_MEMORY, 20), (FULL, 100)]
)
def test_a_sentence_that_cannot_be_done_is_refused_in_the_end(
    translator, gateway, failure, most_requests
):
    gateway.judge = lambda texts: failure
    with pytest.raises(TranslationFailed) as caught:
        translator.translate(["One sentence"], WANTED)
    assert caught.value.problem["type"] == f"urn:babelgate:{failure.slug}"
    assert len(gateway.asked) <= most_requests


@pytest.mark.parametrize("failure", [LATE, OUT_OF_MEMORY])
def test_it_is_refused_sooner_where_others_are_translated(translator, gateway, failure):
    def judge(texts: list[str]):
        translator.pace.quicken()  # as another request of the document does
        return failure

    gateway.judge = judge
    with pytest.raises(TranslationFailed):
        translator.translate(["One sentence"], WANTED)
    assert len(gateway.asked) == 5


@pytest.mark.parametrize(("failure", "hours"), [(NOT_READY, 1), (FULL, 0.5)])
def test_a_gateway_that_is_busy_or_starts_again_is_waited_for(
    translator, gateway, waits, failure, hours
):
    gateway.judge = lambda _: failure if waits.seconds < 3_600 * hours else None
    assert translator.translate(["One.", "Two."], WANTED) == ["ONE.", "TWO."]


@pytest.mark.parametrize("failure", [Failure(500, "internal"), Failure(502), LATE])
def test_a_gateway_that_fails_now_and_then_is_asked_again(translator, gateway, failure):
    gateway.failures.extend([failure] * 2)
    assert translator.translate(["one"], WANTED) == ["ONE"]


def test_a_program_that_is_no_gateway_is_waited_for(translator, gateway, waits):
    gateway.encode = lambda content: (
        b"<p>" if waits.seconds < 1_800 else json.dumps(content).encode()
    )
    assert translator.translate(["one"], WANTED) == ["ONE"]


@pytest.fixture
def unanswered() -> Iterator[socket.socket]:
    """A bound socket that does not listen at first, and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server


def find_address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_gateway_that_is_gone_is_given_up_after_a_day(unanswered, connect, waits):
    translator = connect(find_address(unanswered))
    with pytest.raises(TranslationFailed) as caught:
        translator.translate(["one"], WANTED)
    assert caught.value.problem["type"] == "urn:babelgate:not-ready"
    assert waits.seconds >= 86_400


def test_that_a_gateway_is_silent_may_be_the_fault_of_the_text(unanswered, connect):
    translator = connect(find_address(unanswered), timeout_s=0.01)
    unanswered.listen(100)
    with pytest.raises(TranslationFailed) as caught:
        translator.translate(["one"], WANTED)
    assert caught.value.problem["type"] == "urn:babelgate:deadline"
