"""What a cluster says of a model, and what is made of it."""

from __future__ import annotations

import re

import pytest

from gateway.backends.backend import ModelState
from gateway.backends.ray.backend import RayBackend


def find_state(backend: RayBackend) -> ModelState:
    state = backend.states(["ko"])["ko"]
    assert state
    return state


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("not-ready", "The replica is not ready."),
        ("loading", "The replica says not-ready."),
        ("crash", r"No replica answers \(status 500\)."),
        ("other", r"No replica answers \(status 200\)."),
        ("unserved", "The cluster serves no such model."),
        ("hang", "No replica answers."),
    ],
)
def test_a_model_is_ready_where_one_replica_is_and_else_says_why_not(
    backend, ingress, monkeypatch, state, reason
):
    monkeypatch.setattr("gateway.backends.backend._STATES_S", 0.0)
    monkeypatch.setattr("gateway.backends.ray.looking._LIMIT_S", 0.2)
    ingress[0].state = state
    assert find_state(backend) == ModelState(True, batch_size=8, queued_rows=3)
    ingress[1].state = state
    found = find_state(backend)
    assert (found.is_ready, found.batch_size, found.queued_rows) == (False, 64, 0)
    assert re.fullmatch(reason, found.reason)


def test_states_are_kept_for_a_moment(backend, ingress, monkeypatch):
    monkeypatch.setattr("gateway.backends.backend._STATES_S", 60.0)
    seen = backend.states(["ko", "en"])
    ingress[0].state = "crash"
    assert backend.states(["en", "ko"]) == seen
    assert ingress[0].looks == 2
