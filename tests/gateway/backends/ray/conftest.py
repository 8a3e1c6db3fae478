"""A cluster with two ingress addresses, and a backend that asks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import catalog
from catalog import Catalog
from gateway.backends.ray.backend import RayBackend
from tests.gateway.backends.ray.fake_cluster import FakeIngress, write_key


@pytest.fixture
def models(map_path: Path) -> Catalog:
    return catalog.load(map_path, is_cluster=True)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return write_key(tmp_path / "key", "first")


@pytest.fixture
def ingress() -> Iterator[list[FakeIngress]]:
    """Two of them, in the order in which the backend asks."""
    both = [FakeIngress(), FakeIngress()]
    yield both
    for each in both:
        each.stop()


@pytest.fixture
def backend(
    ingress: list[FakeIngress],
    key_file: Path,
    models: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> RayBackend:
    """It asks the first address first."""
    monkeypatch.setattr("random.sample", lambda population, k: list(population))
    urls = [each.url for each in ingress]
    return RayBackend(urls, key_file, models.models, connections=4)
