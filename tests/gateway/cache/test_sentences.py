"""Sentences that were translated before, or are being translated."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import Mock

import gevent
import pytest
from gevent.event import Event

from contract.problems import write_problem
from gateway.backends.backend import ModelState
from gateway.cache import table
from gateway.cache.sentences import CachedRows, SentenceCache
from gateway.errors import ClientGone, DeadlineExceeded, Overloaded, RowProblem
from gateway.http.request import Call
from gateway.metrics import Telemetry
from gateway.settings import Settings
from tests.gateway.conftest import StatelessBackend, make_call, make_gone, make_model
from text.options import TranslationRequest

ROW = ("en", "Hello")
MODELS = [make_model()]


class Workers(StatelessBackend):
    """A backend whose workers may be replaced."""

    life: str | None = "first"
    looks = 0

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        self.looks += 1
        state = ModelState(True, 64, 0, life=self.life) if self.life else None
        return dict.fromkeys(models, state)

    def predict(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise NotImplementedError


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def make_cache(monkeypatch: pytest.MonkeyPatch, workers: Workers) -> Callable[..., Any]:
    """A factory of caches with new memory, which check the workers at every lookup."""
    monkeypatch.setattr("gateway.cache.sentences._SEEN_S", -1.0)
    table.share.cache_clear()

    def make(**settings: Any) -> SentenceCache:
        given = Settings.model_validate({"cache_bytes": 1 << 20} | settings)
        return SentenceCache(workers, MODELS, given, Telemetry())

    return make


@pytest.fixture
def cache(make_cache: Callable[..., SentenceCache]) -> SentenceCache:
    return make_cache()


def open_rows(
    cache: SentenceCache, call: Call | None = None, **given: Any
) -> CachedRows:
    options: dict[str, Any] = {"source": "en", "target": "ko"} | given
    wanted = TranslationRequest(texts=("Hello",), is_list=False, **options)
    return cache.open("ko", wanted, call or make_call())


def answer(text: str = "안녕", digest: str = "weights") -> dict[str, Any]:
    return {"translated": text, "score": -0.5, "model": digest}


def learn(
    cache: SentenceCache, content: dict[str, Any] | None = None, **given: Any
) -> None:
    """Have the model answer the row."""
    open_rows(cache, **given).ask(ROW, lambda: content or answer())


def knows(cache: SentenceCache, call: Call | None = None, **given: Any) -> bool:
    return ROW in open_rows(cache, call, **given).find([ROW])


def test_an_answer_comes_back_as_it_was(cache):
    others = [{"text": "a", "score": -1}]
    full = answer() | {"alternatives": others, "warnings": ["\ud800"]}
    learn(cache, full)
    assert open_rows(cache).find([ROW, ("en", "Bye")]) == {ROW: full}


def test_others_run_while_many_rows_are_found(cache, monkeypatch):
    pauses = Mock()
    monkeypatch.setattr("gateway.threads.let_others_run", pauses)
    learn(cache)
    open_rows(cache).find([("en", str(number)) for number in range(200)])
    assert pauses.call_count == 9  # keys, values and answers


@pytest.mark.parametrize(
    "other",
    [{"beam_size": 4}, {"alternatives": 1}, {"target": "de"}],
    ids=["beam size", "alternatives", "target"],
)
def test_another_search_is_another_answer(cache, other):
    learn(cache)
    assert knows(cache)
    assert not knows(cache, **other)


@pytest.mark.parametrize(
    ("digest", "knows_it"), [("weights", True), ("others", False)], ids=["same", "new"]
)
def test_new_workers_have_the_answers_of_their_weights(
    cache, workers, digest, knows_it
):
    learn(cache)
    workers.life = "second"
    assert not knows(cache)
    open_rows(cache).ask(("en", "Bye"), lambda: answer(digest=digest))
    assert knows(cache) is knows_it
    assert open_rows(cache).find([("en", "Bye")])


def test_an_old_worker_that_answers_late_is_not_believed(cache, workers):
    def answer_late() -> dict[str, Any]:
        workers.life = "second"
        knows(cache)
        return answer()

    learn(cache)
    open_rows(cache).ask(("en", "Bye"), answer_late)
    assert not knows(cache)


def test_without_workers_that_are_seen_nothing_is_found(cache, workers):
    learn(cache)
    workers.life = None
    assert not knows(cache)


def test_a_model_that_says_no_digest_is_asked_each_time(cache):
    learn(cache, {"translated": "안녕"})
    assert not knows(cache)


def test_without_bytes_nothing_is_kept_or_shared(make_cache):
    cache = make_cache(cache_bytes=0)
    learn(cache)
    assert not knows(cache)
    assert not open_rows(cache).is_coming(ROW)


@dataclass
class Slow:
    """A model that answers once a test lets it."""

    outcome: dict[str, Any] | Exception = field(default_factory=answer)
    asked: int = 0
    goes_on: Event = field(default_factory=Event)

    def wait(self) -> None:
        """Wait until the model is asked and all other greenlets have run."""
        while not self.asked:
            gevent.sleep(0.001)
        gevent.sleep(0)

    def __call__(self) -> dict[str, Any]:
        self.asked += 1
        self.goes_on.wait(10)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def ask(cache: SentenceCache, model: Slow) -> Any:
    """Return the row's answer or error."""
    try:
        return open_rows(cache).ask(ROW, model)
    except Exception as error:
        return error


def ask_together(cache: SentenceCache, model: Slow, count: int) -> list[Any]:
    """Return the answers or errors of equal rows that arrive while the model has the first."""
    greenlets = [gevent.spawn(ask, cache, model) for _ in range(count)]
    model.wait()
    assert model.asked == 1
    assert open_rows(cache).is_coming(ROW)
    model.goes_on.set()
    gevent.joinall(greenlets, raise_error=True)
    return [greenlet.value for greenlet in greenlets]


def test_equal_rows_that_are_on_their_way_are_asked_once(cache):
    model = Slow()
    assert ask_together(cache, model, 5) == [answer()] * 5
    assert model.asked == 1


def test_a_fault_of_the_row_is_that_of_all(cache):
    document = write_problem("text-too-long", 422, "too long", tokens=7)
    model = Slow(RowProblem(document))
    found = ask_together(cache, model, 3)
    assert [each.extra for each in found] == [{"tokens": 7}] * 3
    assert model.asked == 1
    assert len(set(map(id, found))) == 3  # each is completed for its own client


@pytest.mark.parametrize(
    "error",
    [
        ClientGone(),
        DeadlineExceeded("the model answered"),
        Overloaded("Too much."),
        RowProblem(write_problem("deadline", 504, "late")),
    ],
    ids=["client gone", "deadline", "overloaded", "row too late"],
)
def test_the_end_of_the_first_does_not_end_the_others(cache, error):
    open_rows(cache).ask(("en", "Bye"), answer)  # the digest is known
    first, second = Slow(error), Slow()
    second.goes_on.set()
    asking = [gevent.spawn(ask, cache, model) for model in (first, second, second)]
    first.wait()
    first.goes_on.set()
    gevent.joinall(asking)
    assert [greenlet.value for greenlet in asking] == [error, answer(), answer()]
    assert (first.asked, second.asked) == (1, 1)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        pytest.param(lambda: make_call(0.05), DeadlineExceeded, id="late"),
        pytest.param(make_gone, ClientGone, id="gone"),
    ],
)
def test_who_waits_for_another_row_has_limits_of_his_own(cache, call, error):
    model = Slow()
    first = gevent.spawn(open_rows(cache).ask, ROW, model)
    model.wait()
    with pytest.raises(error):
        open_rows(cache, call()).ask(ROW, model)
    model.goes_on.set()
    assert first.get() == answer()


def test_the_workers_are_looked_at_only_where_an_answer_is_kept(cache, workers):
    learn(cache)
    looks = workers.looks
    open_rows(cache).find([("en", f"{number}") for number in range(100)])
    assert workers.looks == looks


def test_who_looks_at_the_moment_of_the_answer_gets_it(cache, monkeypatch):
    monkeypatch.setattr("gateway.http.request._LOOK_S", 0.02)
    open_rows(cache).ask(("en", "Bye"), answer)  # the workers are known

    def predict() -> dict[str, Any]:
        gevent.sleep(0.01)
        return answer()

    asking = [gevent.spawn(open_rows(cache).ask, ROW, predict) for _ in range(4)]
    gevent.sleep(0)
    time.sleep(0.05)  # now all timers have expired, and the loop runs them together
    gevent.joinall(asking, timeout=5)
    assert [greenlet.value for greenlet in asking] == [answer()] * 4


class Claims:
    """Claims in which another process has the row for some lookups; then `leaves` is called."""

    def __init__(self, looks: int, leaves: Callable[[], object]) -> None:
        self.looks, self._leaves, self.taken = looks, leaves, 0

    def is_taken(self, key: Any) -> bool:
        self.looks -= 1
        if not self.looks:
            self._leaves()
        return self.looks > 0

    def take(self, key: Any, until: float) -> None:
        self.taken += 1

    def give_back(self, key: Any) -> None:
        self.taken -= 1


@pytest.mark.parametrize("whose", ["theirs", "ours"], ids=["answered", "given up"])
def test_a_row_of_another_process_is_waited_for(cache, whose, monkeypatch):
    open_rows(cache).ask(("en", "Bye"), answer)  # the digest is known
    find = Mock(wraps=cache.find)
    monkeypatch.setattr(cache, "find", find)
    key = open_rows(cache)._make_key("weights", ROW)
    leaves = partial(cache.keep, key, answer(whose)) if whose == "theirs" else int
    cache.claims = claims = Claims(3, leaves)
    assert open_rows(cache).ask(ROW, lambda: answer("ours"))["translated"] == whose
    assert (claims.looks, claims.taken, find.call_count) == (0, 0, 1)
