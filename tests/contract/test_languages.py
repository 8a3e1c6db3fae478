"""Language tags: what clients write for a language, and which language that is."""

from __future__ import annotations

import pytest

from contract.languages import LANGUAGES, is_traditional_chinese, normalize_language

#: Tags, their language, and whether they ask for traditional Chinese.
TAGS = [
    ("zh-CN", "zh", False),
    ("zh-Hans-TW", "zh", False),
    ("zh_Hant_HK", "zh", True),
    ("zh-MO", "zh", True),
    ("zt", "zh", True),
    ("pt-br", "pt", False),
    ("EN-US", "en", False),
    (" en\n", "en", False),
    ("NB", "no", False),
    ("iw", "he", False),
    ("en-TW", "en", False),
    ("", "", False),
    ("-", "", False),
    ("Klingon", "klingon", False),
]


@pytest.mark.parametrize(("tag", "language", "is_traditional"), TAGS)
def test_a_tag_is_understood(tag, language, is_traditional):
    assert normalize_language(tag) == language
    assert is_traditional_chinese(tag) is is_traditional


def test_the_models_own_codes_stay():
    assert [normalize_language(code) for code in LANGUAGES] == LANGUAGES
    assert not any(map(is_traditional_chinese, LANGUAGES))
