"""The fake stack, and one client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.server import ApiClient, RetryPolicy
from tests.fake_api import FakeApi

#: Between two attempts of a request.
DELAY_S = 0.001


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = "clients.server.RetryPolicy.choose_delay"
    monkeypatch.setattr(policy, lambda *_: DELAY_S)


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi() as fake:
        yield fake


@pytest.fixture
def stack(fake: FakeApi) -> FakeApi:
    return fake


@pytest.fixture
def server(fake: FakeApi) -> Iterator[ApiClient]:
    """Gives up after three attempts."""
    patience = RetryPolicy(attempts=3, timeout_s=30)
    with ApiClient(fake.url, patience, connections=4) as server:
        yield server
