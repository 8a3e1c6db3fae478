"""When a model counts as absent, and when it is tried again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gateway.backends.backend import ModelState
from gateway.backends.ray.circuit_breaker import CircuitBreaker
from gateway.errors import NotReady


@dataclass
class Model:
    """A model with or without replicas, at a time that a test sets."""

    has_replicas: bool = False
    now_s: float = 1000.0
    look_s: float = 2.0
    looks: int = 0
    presence: CircuitBreaker = field(init=False)

    def __post_init__(self) -> None:
        self.presence = CircuitBreaker("ko", self.look)

    def look(self) -> ModelState:
        """It takes time where nobody answers."""
        self.looks += 1
        self.now_s += 0.0 if self.has_replicas else self.look_s
        return ModelState(self.has_replicas, batch_size=1, queued_rows=0)

    def wait_in_vain(self) -> None:
        """A row waits until it has its doubts."""
        doubt = self.presence.doubt(30.0)
        assert doubt
        doubt.ask()

    @property
    def is_refused(self) -> bool:
        """Whether the next row is."""
        try:
            self.presence.check()
        except NotReady:
            return True
        return False


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr("time.monotonic", lambda: model.now_s)
    return model


def test_a_model_that_nothing_is_known_of_is_asked(model):
    assert not model.is_refused


def test_a_model_without_replicas_is_refused_from_then_on(model):
    with pytest.raises(NotReady, match="replicas for ko do not answer") as refusal:
        model.wait_in_vain()
    assert int(refusal.value.headers["Retry-After"]) > 0
    assert model.is_refused


def test_one_row_tries_a_model_that_was_absent(model):
    with pytest.raises(NotReady):
        model.wait_in_vain()
    model.now_s += 2.0
    assert [model.is_refused for _ in range(3)] == [False, True, True]
    model.now_s += 2.0
    assert [model.is_refused for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("by", ["an answer", "a look"])
def test_a_model_that_answers_again_is_there(model, by):
    with pytest.raises(NotReady):
        model.wait_in_vain()
    model.now_s += 2.0
    model.has_replicas = True
    if by == "an answer":
        model.presence.hear()
    else:
        assert model.presence.state.is_ready
    assert [model.is_refused for _ in range(3)] == [False] * 3


def test_a_row_waits_for_a_slow_model_that_is_there(model):
    model.has_replicas = True
    model.wait_in_vain()
    assert model.looks == 1
    assert not model.is_refused


@pytest.mark.parametrize(("heard_ago_s", "looks"), [(1.9, 0), (2.0, 1)])
def test_a_model_that_has_just_answered_is_not_doubted(model, heard_ago_s, looks):
    model.has_replicas = True
    model.presence.hear()
    model.now_s += heard_ago_s
    model.wait_in_vain()
    assert model.looks == looks


def test_looks_that_meet_a_replica_which_has_ended_refuse_no_row(model, monkeypatch):
    """Another one answers soon."""
    model.look_s = 0.0
    monkeypatch.setattr("time.sleep", lambda _: model.presence.hear())
    model.wait_in_vain()
    assert not model.is_refused


def test_all_rows_that_wait_use_one_look(model):
    for _ in range(5):
        with pytest.raises(NotReady):
            model.wait_in_vain()
    assert model.looks == 1


@pytest.mark.parametrize(("remaining_s", "has_doubts"), [(7.1, True), (7.0, False)])
def test_a_row_with_little_time_does_not_spend_it_on_doubts(
    model, remaining_s, has_doubts
):
    assert (model.presence.doubt(remaining_s) is not None) is has_doubts
