"""One model for all languages of a device: the same answers, a fraction of the processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy.stack import ROOT, Stack
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.items import LANGUAGES
from tests.e2e.real_stack import start_stack
from tests.e2e.test_translation import translate_pairs


@pytest.fixture(scope="module")
def device_stack(
    tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Iterator[Stack]:
    """The repository's own map, but with a model per device."""
    content = json.loads((ROOT / "torchserve_backend/setup_config.json").read_text())
    content["translation"]["placement"] = "device"
    path = tmp_path_factory.mktemp("map") / "setup_config.json"
    path.write_text(json.dumps(content))
    yield from start_stack(tmp_path_factory.mktemp("device"), cache, "--map", str(path))


def test_placement_changes_no_translation(url: str, device_stack: Stack):
    pairs = Corpus(phrasebook.load()).held_out(500)
    by_language = translate_pairs(url, pairs)
    by_device = translate_pairs(device_stack.url, pairs)
    differing = [
        (pair.source, a, b)
        for pair, a, b in zip(pairs, by_language, by_device, strict=True)
        if a != b
    ]
    assert differing == []


def test_clients_see_the_same_languages(url: str, device_stack: Stack):
    def languages(url: str) -> list[str]:
        return [
            entry["code"]
            for entry in requests.get(f"{url}/languages", timeout=30).json()
        ]

    assert languages(device_stack.url) == languages(url)
    assert set(languages(url)) == set(LANGUAGES)
