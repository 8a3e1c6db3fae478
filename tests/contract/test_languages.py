"""Language tags: what clients write for a language, and which language that is."""

from __future__ import annotations

import pytest

from contract.languages import (
    LANGUAGES,
    SCRIPTS,
    VARIANTS,
    list_variants,
    normalize_language,
    normalize_variant,
)

#: Tags, their variant, and its language.
TAGS = [
    ("zh-CN", "zh", "zh"),
    ("zh_Hans", "zh", "zh"),
    ("zh-Hans-TW", "zh", "zh"),
    ("ZH-HANT", "zh-Hant", "zh"),
    ("zh_TW", "zh-Hant", "zh"),
    ("zh_Hant_HK", "zh-HK", "zh"),
    ("zh-MO", "zh-HK", "zh"),
    ("zt", "zh-Hant", "zh"),
    ("sr@latin", "sr-Latn", "sr"),
    ("sr_Cyrl_RS", "sr-Cyrl", "sr"),
    ("sr-RS", "sr", "sr"),
    ("pt-br", "pt", "pt"),
    ("EN-US", "en", "en"),
    (" en\n", "en", "en"),
    ("NB", "no", "no"),
    ("iw", "he", "he"),
    ("en-TW", "en", "en"),
    ("", "", ""),
    ("-", "", ""),
    ("Klingon", "klingon", "klingon"),
]


@pytest.mark.parametrize(("tag", "variant", "language"), TAGS)
def test_a_tag_is_understood(tag, variant, language):
    assert normalize_variant(tag) == variant
    assert normalize_language(tag) == language


def test_our_own_codes_stay():
    known = list_variants(LANGUAGES)
    assert [normalize_variant(code) for code in known] == known
    assert [code for code in known if code not in VARIANTS] == LANGUAGES
    assert VARIANTS.keys() < set(known) == SCRIPTS.keys()
