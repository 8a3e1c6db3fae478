"""Language tags: the forms that clients and models use, and the language of each."""

import re
from functools import cache
from pathlib import Path

import pytest
import regex
import yaml
from babel import Locale
from babel.core import get_global
from babel.localedata import exists
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from contract.languages import (
    LANGUAGES,
    SCRIPTS,
    VARIANTS,
    choose_language,
    find_tag,
    list_variants,
    normalize_language,
    normalize_variant,
)
from handlers.engine.translation.families.m2m100 import CODES as M2M100

TABLES = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
#: Languages that people and models write less in CLDR's likeliest script than in ours.
WRITTEN_OTHERWISE = ("ctd", "kmz", "mww", "suz")
#: Unicode's names for ISO 15924's codes of several scripts or of a variant of one.
UNICODE_CODES = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hani", "Kore": "Hang"}
LETTERS = [*filter(str.isalpha, map(chr, range(0x20000)))]


@pytest.mark.parametrize(("tag", "variant", "language"), TABLES["tags"])
def test_a_tag_is_understood(tag, variant, language):
    assert normalize_variant(tag) == variant
    assert normalize_language(tag) == language


def test_our_own_codes_stay():
    known = list_variants(LANGUAGES)
    assert [normalize_variant(code) for code in known] == known
    assert set(known) == LANGUAGES.keys() == SCRIPTS.keys() > VARIANTS.keys()
    assert len(known) == len(LANGUAGES)


@pytest.mark.parametrize(("tag", "served", "language"), TABLES["served"])
def test_a_tag_stands_for_a_language_that_is_served(tag, served, language):
    assert choose_language(tag, served) == language


@pytest.mark.parametrize(("code", "tag"), TABLES["codes"])
def test_a_code_of_a_model_is_a_tag(code, tag):
    assert find_tag(code) == tag


def test_the_table_has_the_languages_of_every_family():
    assert len(NLLB) == len(set(map(find_tag, NLLB)) & LANGUAGES.keys()) == 202
    assert len(M2M100) == len({*M2M100} & LANGUAGES.keys()) == 100
    assert len(LANGUAGES) > 500
    assert all(find_tag(tag) == tag for tag in LANGUAGES if tag != "sr-Cyrl")


def test_names_scripts_and_directions_are_those_of_cldr():
    english, likely = Locale("en"), get_global("likely_subtags")
    for tag, language in LANGUAGES.items():
        assert english.languages.get(tag, language.name) == language.name != tag
        assert re.fullmatch(r"[a-z]{2,3}(-[A-Z][a-z]{3}|-[A-Z]{2})?", tag)
        locale = Locale.parse(tag, sep="-") if exists(tag.replace("-", "_")) else None
        if locale and "-" not in tag:
            assert locale.languages.get(tag, "") == language.own_name
            assert (locale.text_direction == "rtl") == language.is_right_to_left
        usual = likely.get(tag.replace("-", "_"), "__").split("_")[1]
        if usual and tag not in WRITTEN_OTHERWISE:
            written = "".join(rf"\p{{Script={name}}}" for name in language.scripts)
            assert regex.match(f"[{written}]", find_letter(usual)), tag


@cache
def find_letter(script: str) -> str:
    """A letter of a script with this ISO 15924 code."""
    name = UNICODE_CODES.get(script, script)
    return next(filter(regex.compile(rf"\p{{Script={name}}}").match, LETTERS))
