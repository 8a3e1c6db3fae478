"""The stack on a Ray cluster of one machine: its answers for all tasks are TorchServe's."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deploy.stack import Stack
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from tests.e2e.conftest import ALL_TASKS
from tests.e2e.real_stack import start_stack, use_after_unloading, wait_until
from tests.e2e.test_translation import translate, translate_pairs

# These tests of a stack with TorchServe also run here, with the fixtures of this file.
from tests.e2e.test_vision import (  # noqa: F401
    samples,
    test_an_image_gets_its_caption_in_every_form,
    test_bad_images_are_refused_and_harm_no_other,
    test_labels_are_right_and_as_many_as_were_asked_for,
    test_many_clients_get_the_captions_of_their_own_frames,
    test_objects_are_found_in_images_of_many_sizes_at_once,
)


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Stack]:
    """A stack with all tasks, and one model for all languages."""
    run = tmp_path_factory.mktemp("ray")
    content = json.loads(ALL_TASKS.read_text("utf-8"))
    content["translation"] = content.get("translation", {}) | {"idle_unload_s": 1}
    with start_stack(run, cache, "--backend", "ray", content=content) as started:
        yield started


@pytest.fixture(scope="module")
def url(vision: Stack) -> str:
    return vision.url


def test_one_model_for_all_languages_translates_as_torchserve_does(stack, vision):
    pairs = Corpus(phrasebook.load()).held_out(300)
    assert translate_pairs(vision.url, pairs) == translate_pairs(stack.url, pairs)


def test_an_unused_model_is_unloaded_and_comes_back(url: str):
    use_after_unloading(url)


def test_the_status_tells_how_full_the_batches_are(url: str):
    translate(url, "Good morning", "en", "fr")

    def look() -> tuple[int, int]:
        """Return the rows and batches of Korean, which has the same model as French."""
        first = requests.get(f"{url}/status", timeout=30).json()["served"][0]
        return first["rows"] or 0, first["batches"] or 0

    wait_until(lambda: all(look()))
    rows, batches = look()
    assert rows >= batches
