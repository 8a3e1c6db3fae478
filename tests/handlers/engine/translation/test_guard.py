"""The findings of the guard, and their absence in translations by people."""

import random
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from contract.languages import LANGUAGES
from handlers.engine.translation.guard import Fault, find_fault
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES as CORPUS_LANGUAGES

TABLES = yaml.safe_load(Path(__file__).with_name("guard.yaml").read_text("utf-8"))
COPY = Fault.UNTRANSLATED


@pytest.mark.parametrize(
    ("text", "translated", "target", "fault"),
    [*TABLES["faults"].values(), *([*row, None] for row in TABLES["right"].values())],
    ids=[*TABLES["faults"], *TABLES["right"]],
)
def test_a_fault_is_found_and_a_right_translation_has_none(
    text: str, translated: str, target: str, fault: str | None
):
    found = find_fault(text, translated, "en", target)
    assert (found and found.name) == fault


@pytest.mark.slow
def test_nothing_of_the_phrasebook_has_a_fault(pairs: list[TextPair]):
    """These are translations by people, between 14 languages in 7 scripts."""
    assert [pair for pair in pairs if judge(pair)] == []


@given(st.text(max_size=200), st.sampled_from([*LANGUAGES]))
def test_a_copy_has_no_other_fault(text: str, target: str):
    fault = Fault.SCRIPT if target == "en" else Fault.UNTRANSLATED
    assert find_fault(text, text, "en", target) in (None, fault)


@pytest.mark.parametrize(
    ("text", "pair", "fault"), TABLES["echoes"].values(), ids=TABLES["echoes"]
)
def test_a_text_that_is_its_own_translation(text: str, pair: str, fault: str | None):
    found = find_fault(text, text, *pair.split("-"))
    assert (found and found.name) == fault


@pytest.mark.parametrize(
    ("translated", "fault"),
    [
        ("we WOULD “like” to have a table here", COPY),
        ("Wir would like to have a table here.", COPY),
        ("Wir würden like to have a table here.", None),
        ("Hier bitte ein Tisch: We would like to have a table here.", None),
    ],
    ids=["capitals and marks", "a word", "two words", "beside a translation"],
)
def test_a_text_that_is_nearly_its_own_translation(translated, fault):
    text = "We would like to have a table here."
    assert find_fault(text, translated, "en", "de") is fault


def test_a_copy_may_have_its_accents_apart():
    text, copy = "Die Katze schläft schön", "Die Katze schla\u0308ft scho\u0308n"
    assert find_fault(copy, text, "de", "ru") is COPY
    assert (
        find_fault("Pare aquí, por favor", "Pare aqui, por favor", "es", "pt") is None
    )


def judge(pair: TextPair) -> Fault | None:
    languages = pair.source_language, pair.target_language
    return find_fault(pair.source, pair.target, *languages)


def test_the_phrasebooks_true_copies_are_let_alone(corpus: Corpus):
    """Names, dates, "Taxi": correct translations that equal their source."""
    same = {
        pair
        for pair in [*corpus.finite(), *corpus.held_out(4000)]
        if fold(pair.source) == fold(pair.target)
    }
    assert len(same) > 5000
    touched = [pair for pair in same if judge(pair)]
    assert len(touched) <= len(same) / 100, touched


@cache
def fold(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def count_words(text: str, language: str) -> float:
    return len(text) / 1.5 if language in ("zh", "ja") else len(text.split())


@pytest.mark.parametrize("source", CORPUS_LANGUAGES)
def test_echoed_sentences_are_found(corpus: Corpus, source: str):
    rng = random.Random(1)
    sentences = {
        text
        for phrase in corpus.phrases
        for text in phrase.draw(rng).wordings(source)
        if count_words(text, source) >= 4
    }
    assert len(sentences) > 100
    for target in {*CORPUS_LANGUAGES} - {source}:
        found = [
            text for text in sentences if find_fault(text, text, source, target) is COPY
        ]
        assert len(found) >= 0.95 * len(sentences), target


@given(st.text(min_size=1, max_size=30), st.integers(4, 20))
def test_a_text_that_goes_round_and_round_is_a_loop(unit: str, times: int):
    letters = "".join(c for c in unit if c.isalpha())
    if len(set(letters)) > 1 and times * len(letters) >= 8:
        text = "Where is the nearest hospital?"
        assert find_fault(text, letters * times, "en", "xx") is Fault.LOOP
