"""A model per language on a cluster of one machine: the translations of TorchServe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy.stack import Stack
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from tests.e2e.real_stack import start_stack
from tests.e2e.test_translation import translate_pairs

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Stack]:
    """The repository's own map, with 14 models."""
    run = tmp_path_factory.mktemp("ray")
    yield from start_stack(run, cache, "--backend", "ray")


def test_14_models_translate_as_torchserves_do(stack: Stack, cluster: Stack):
    languages = requests.get(f"{cluster.url}/languages", timeout=60).json()
    assert [language["ready"] for language in languages] == [True] * 14
    pairs = Corpus(phrasebook.load()).held_out(300)
    assert translate_pairs(cluster.url, pairs) == translate_pairs(stack.url, pairs)
