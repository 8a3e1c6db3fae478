"""Unused models are unloaded, by a clock that the test controls."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import catalog
from gateway.admission import idle
from tests.gateway.conftest import make_model


class Ended(Exception):
    """An exception that ends the endless loop."""


def test_what_was_unused_for_its_limit_is_unloaded(monkeypatch: pytest.MonkeyPatch):
    now, unloaded = 100.0, list[tuple[str, float]]()
    looked_at: dict[str, float] = {}
    #: French is used at 103 s.
    used_at = {"ko": 0.0, "fr": 103.0}

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > 110:
            raise Ended

    def unload(model: catalog.Model, is_unused: Callable[[], bool]) -> None:
        assert is_unused()
        unloaded.append((model.name, now))

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr(idle, "time", clock)
    admission: Any = SimpleNamespace(
        is_unused_since=lambda name, then: (
            looked_at.setdefault(name, now) and used_at[name] <= then
        )
    )
    limits = {make_model("ko"): 2, make_model("fr"): 4}
    with pytest.raises(Ended):
        idle.unload_unused(admission, limits, unload)
    first = dict(reversed(unloaded))
    assert first == {"ko": 102.5, "fr": 107.0}
    assert looked_at == {"ko": 100.5, "fr": 100.5}  # as a sign of life for others
