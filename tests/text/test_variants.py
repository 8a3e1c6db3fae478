"""Conversion of texts between the variants and scripts of a language."""

import pytest

from models.phrasebook_recipe import phrasebook
from tests.text.cases import list_rows
from text.variants import convert


@pytest.mark.parametrize(("text", "variant", "expected"), list_rows("variants"))
def test_a_text_is_written_as_its_variant(text, variant, expected):
    assert convert(text, variant) == convert(expected, variant) == expected


def test_simplified_characters_stay_and_come_back():
    texts = {text for phrase in phrasebook.load() for text in phrase.wordings["zh"]}
    assert len(texts) > 500
    assert {convert(text, "zh") for text in texts} == texts
    back = {text for text in texts if convert(convert(text, "zh-HK"), "zh") == text}
    assert len(back) >= 0.99 * len(texts)
