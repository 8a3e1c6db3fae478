"""A language with its confidence, or none where there is too little evidence."""

from __future__ import annotations

import pytest

from text.langid import LIBRARIES, MIN_CONFIDENCE, UNDETERMINED, Identifier

LANGUAGES = "ko en zh es fr ru id ja vi de it hi ar pt".split()


@pytest.fixture(scope="module", params=LIBRARIES)
def identifier(request: pytest.FixtureRequest) -> Identifier:
    return Identifier(LANGUAGES, library=request.param)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ko", "안녕하세요, 어떻게 지내세요?"),
        ("ru", "Где находится ближайшая аптека?"),
        ("de", "Ich möchte ein Zimmer für zwei Nächte."),
        ("ar", "أين أقرب محطة قطار؟"),
        ("de", "Hallo!"),
        ("ja", "東京タワー"),
    ],
)
def test_a_language_is_identified(identifier, language, text):
    best = identifier.identify(text)
    assert best.language == language
    assert best.confidence >= MIN_CONFIDENCE


@pytest.mark.parametrize("text", ["", " \n", "1234", "Taxi", "https://a.b/привет"])
def test_too_little_evidence_is_no_language(identifier, text):
    best = identifier.identify(text)
    assert best.language == UNDETERMINED
    assert best.confidence < MIN_CONFIDENCE


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


@pytest.mark.parametrize("library", LIBRARIES)
def test_only_the_given_languages_are_named(library):
    few = Identifier(["de", "nl"], library=library)
    assert {guess.language for guess in few.rank("See you tomorrow")} <= {"de", "nl"}
