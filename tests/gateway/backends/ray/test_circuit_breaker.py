"""The times when callers stay away, and the one that tries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gateway.backends.ray.addresses import Address, Addresses, GatewayKey
from gateway.backends.ray.circuit_breaker import CircuitBreaker

NOW = 1000.0


@pytest.mark.parametrize(
    ("acts", "tries"),
    [
        pytest.param("", [False, False], id="closed"),
        pytest.param("open", [False, False], id="it rests"),
        pytest.param("open wait", [True, False], id="it has rested: one tries"),
        pytest.param("open wait try wait", [True, False], id="it has rested again"),
        pytest.param("open wait try", [False, False], id="while one tries"),
        pytest.param("open wait try close wait", [False, False], id="it answers again"),
    ],
)
def test_after_a_rest_one_caller_tries(
    acts: str, tries: list[bool], monkeypatch: pytest.MonkeyPatch
):
    now_s = NOW
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    breaker = CircuitBreaker(5.0)
    for act in acts.split():
        if act == "wait":
            now_s += 5.0
        else:
            {"open": breaker.open, "close": breaker.close, "try": breaker.let_one_try}[
                act
            ]()
    assert breaker.is_open is ("open" in acts and "close" not in acts)
    assert [breaker.let_one_try() for _ in tries] == tries


@pytest.fixture
def addresses(tmp_path: Path) -> Addresses:
    urls = [f"http://{name}:7810" for name in "abc"]
    return Addresses(urls, GatewayKey(tmp_path / "none"), connections=1)


def name(address: Address) -> str:
    return address.channel.url[7]


def rest(addresses: Addresses, wanted: str) -> None:
    """Let an address of this name rest."""
    for address in addresses.list_well_first():
        if name(address) == wanted:
            address.breaker.open()


def test_all_addresses_get_their_part(addresses):
    first = Counter(name(addresses.arrange()[0]) for _ in range(3000))
    assert min(first.values()) > 800


def test_one_that_rests_is_asked_last(addresses):
    rest(addresses, "b")
    for _ in range(50):
        assert name(addresses.arrange()[-1]) == "b"


def test_of_those_that_have_rested_one_row_tries_one(addresses, monkeypatch):
    now_s = NOW
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    rest(addresses, "a")
    rest(addresses, "b")
    now_s += 60
    for _ in range(50):  # no row is sent
        assert name(addresses.list_well_first()[0]) == "c"
    tries = ["".join(map(name, addresses.arrange())) for _ in range(4)]
    assert sorted(tries[:2]) == ["acb", "bca"]
    assert {each[0] for each in tries[2:]} == {"c"}
