"""Which address a row is sent to first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gateway.backends.ray.addresses import Address, Addresses, GatewayKey


@pytest.fixture
def addresses(tmp_path: Path) -> Addresses:
    urls = [f"http://{name}:7810" for name in "abc"]
    return Addresses(urls, GatewayKey(tmp_path / "none"), connections=1)


def name(address: Address) -> str:
    return address.channel.url[7]


def find(addresses: Addresses, wanted: str) -> Address:
    return next(each for each in addresses.arrange() if name(each) == wanted)


def test_all_addresses_get_their_part(addresses):
    first = Counter(name(addresses.arrange()[0]) for _ in range(3000))
    assert min(first.values()) > 800


def test_one_that_rests_is_asked_last(addresses):
    find(addresses, "b")._rest()
    for _ in range(50):
        assert name(addresses.arrange()[-1]) == "b"


def test_of_those_that_have_rested_one_row_tries_one(addresses, monkeypatch):
    monkeypatch.setattr("gateway.backends.ray.addresses._REST_S", 0.0)
    find(addresses, "a")._rest()
    find(addresses, "b")._rest()
    monkeypatch.setattr("gateway.backends.ray.addresses._REST_S", 600.0)
    tries = ["".join(map(name, addresses.arrange())) for _ in range(4)]
    assert sorted(tries[:2]) == ["acb", "bca"]
    assert {each[0] for each in tries[2:]} == {"c"}


def test_those_who_only_look_try_none_for_others(addresses, monkeypatch):
    monkeypatch.setattr("gateway.backends.ray.addresses._REST_S", 0.0)
    find(addresses, "a")._rest()
    for _ in range(50):
        assert name(addresses.list_well_first()[-1]) == "a"
