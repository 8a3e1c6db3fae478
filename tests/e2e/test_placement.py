"""One model for all languages of a device: the same answers, a fraction of the processes."""

from __future__ import annotations

import json

from deploy.stack import Stack
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from tests.e2e.test_translation import translate_pairs


def test_placement_changes_no_translation(stack: Stack, vision: Stack):
    maps = [json.loads(one.map.read_text()) for one in (stack, vision)]
    assert [m["translation"]["placement"] for m in maps] == ["language", "device"]
    pairs = Corpus(phrasebook.load()).held_out(500)
    by_language = translate_pairs(stack.url, pairs)
    by_device = translate_pairs(vision.url, pairs)
    differing = [
        (pair.source, a, b)
        for pair, a, b in zip(pairs, by_language, by_device, strict=True)
        if a != b
    ]
    assert differing == []
