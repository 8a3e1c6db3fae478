"""Texts have a language with a confidence, or none if there is too little evidence."""

from pathlib import Path

import pytest
import yaml

from models.phrasebook_recipe.words import SLOT, WORD, fold, list_texts
from tests.text.cases import list_rows
from text.langid import LIBRARIES, MIN_CONFIDENCE, UNDETERMINED, Identifier

LANGUAGES = "ko en zh es fr ru id ja vi de it hi ar pt".split()
FOREIGN = Path(__file__).with_name("foreign_phrases.yaml")
MOST_WORDS = 3
#: Chinese and Japanese have no spaces between words.
MOST_CHARACTERS = {"zh": 10, "ja": 10}


@pytest.fixture(scope="module", params=LIBRARIES)
def identifier(request: pytest.FixtureRequest) -> Identifier:
    return Identifier(LANGUAGES, library=request.param)


@pytest.mark.parametrize(("language", "text"), list_rows("languages"))
def test_a_language_is_identified(identifier, language, text):
    best = identifier.identify(text)
    assert best.language == language
    assert best.confidence >= MIN_CONFIDENCE


@pytest.mark.parametrize(
    "text", ["", "\n", "12:30", "Taxi", "Ok!", "no", "https://a.b/привет"]
)
def test_too_little_evidence_is_no_language(identifier, text):
    best = identifier.identify(text)
    assert best.language == UNDETERMINED
    assert best.confidence < MIN_CONFIDENCE


@pytest.mark.parametrize(
    ("languages", "text", "ranked"), list_rows("languages by script")
)
def test_a_language_without_a_profile_is_known_by_its_script(languages, text, ranked):
    found = Identifier(languages.split()).rank(text)
    assert [[guess.language, guess.confidence] for guess in found] == ranked


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("hello handsome", set("en es fr id vi de it pt".split())),
        ("ひらがな", {"ja"}),
        ("漢字", {"zh", "ja", "ko"}),
        ("γειά σου", set()),
    ],
)
def test_a_language_of_another_script_is_never_named(identifier, text, possible):
    assert {guess.language for guess in identifier.rank(text)} == possible


def test_confidences_are_shares(identifier):
    ranked = identifier.rank("Das ist ein Haus")
    assert sum(guess.confidence for guess in ranked) == pytest.approx(1, abs=0.01)
    assert ranked == sorted(ranked, key=lambda guess: -guess.confidence)


@pytest.mark.parametrize(("text", "languages", "expected"), list_rows("closed sets"))
def test_a_closed_set_leaves_its_languages(identifier, text, languages, expected):
    assert identifier.identify(text, languages).language == expected
    ranked = {guess.language for guess in identifier.rank(text, languages)}
    assert ranked <= set(languages)


def list_held_out() -> list[tuple[str, str]]:
    """Return held-out texts of at most three words, with their languages. None is in the data
    that `words.txt` was made from, and only one language writes each like that."""
    known = {fold(text) for _, text in list_texts(is_held_out=False)}
    languages: dict[str, set[str]] = {}
    texts = {}
    for language, text in list_texts(is_held_out=True):
        languages.setdefault(fold(text), set()).add(language)
        texts[fold(text)] = language, text
    return sorted(
        texts[folded]
        for folded, found in languages.items()
        if len(found) == 1 and folded not in known and is_short(*texts[folded])
    )


def is_short(language: str, text: str) -> bool:
    is_text = WORD.search(text) and not SLOT.search(text)
    is_few = len(text.split()) <= MOST_WORDS
    return bool(is_text) and is_few and len(text) <= MOST_CHARACTERS.get(language, 100)


def test_short_texts_that_no_data_was_made_of_are_identified():
    """`docs/api.md` states the shares."""
    identifier = Identifier(LANGUAGES)
    texts = list_held_out()
    ranked = [identifier.rank(text) for _, text in texts]
    right = [
        found[0].confidence
        for found, (language, _) in zip(ranked, texts, strict=True)
        if found and found[0].language == language
    ]
    sure = [confidence for confidence in right if confidence >= MIN_CONFIDENCE]
    assert len(texts) > 2000
    assert len(right) / len(texts) > 0.93
    assert len(sure) / len(texts) > 0.91


def test_short_texts_in_other_languages_are_mostly_undetermined():
    identifier = Identifier(LANGUAGES)
    foreign = yaml.safe_load(FOREIGN.read_text("utf-8"))
    texts = [text for line in foreign.values() for text in line.split(", ")]
    found = [identifier.identify(text).language for text in texts]
    assert len(foreign) > 25
    assert found.count(UNDETERMINED) / len(texts) > 0.78
    assert identifier.identify("Good morning", ["de", "fr"]).language == UNDETERMINED
