"""Unmodified clients of LibreTranslate, DeepL and Google against the real stack."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.e2e.clients import ask

LIMIT_S = 300

TOMORROW, STATION = "Bis morgen", "Où est la gare"
HTML = "<p>Ich heiße <b>Anna</b>.</p>"
XML = "<d><t>Guten Morgen</t><p>Ich heiße <x>{Anna}</x>.</p></d>"


@pytest.fixture(scope="session")
def answers(url: str) -> dict[str, Any]:
    """By package and question."""
    return ask("ask", url)


#: Package, question, and what the answer is or has.
ANSWERS: list[tuple[str, str, Any]] = [
    ("deepl", "text", {"text": TOMORROW, "billed_characters": 16}),
    ("deepl", "text", {"detected_source_lang": "EN"}),
    ("deepl", "auto", {"text": STATION, "detected_source_lang": "EN"}),
    ("deepl", "list", [{"text": STATION}, {"text": STATION}]),
    ("deepl", "list", [{"detected_source_lang": lang} for lang in ("EN", "DE")]),
    ("deepl", "html", {"text": HTML, "billed_characters": 16}),
    ("deepl", "xml", {"text": XML}),
    ("deepl", "bad xml", "DeepLException: Bad request, message: Tag handling parsing"),
    ("deepl", "variant", {"detected_source_lang": "DE"}),
    ("deepl", "sources", [{"code": "AR"}, {"code": "DE"}, {"code": "EN"}]),
    ("deepl", "targets", [{"code": "AR", "supports_formality": False}]),
    ("deepl", "usage", 0),
    ("deepl", "pairs", 14 * 13),
    ("deepl", "unknown language", "DeepLException: Bad request, message: Value for"),
    ("deepl", "formality", "DeepLException: Bad request, message: 'formality' is not"),
    ("deepl", "prefer formality", {"text": TOMORROW}),
    ("deepl", "glossaries", []),
    ("deepl", "command line", [TOMORROW, "Guten Morgen"]),
    ("deepl-node", "text", {"text": TOMORROW, "billedCharacters": 16}),
    ("deepl-node", "auto", {"text": STATION, "detectedSourceLang": "en"}),
    ("deepl-node", "list", [{"text": STATION}, {"detectedSourceLang": "de"}]),
    ("deepl-node", "xml", {"text": XML}),
    ("deepl-node", "variant", {"detectedSourceLang": "en"}),
    ("deepl-node", "sources", [{"code": "ar"}, {"code": "de"}, {"code": "en"}]),
    ("deepl-node", "targets", [{"code": "ar", "supportsFormality": False}]),
    ("deepl-node", "usage", 0),
    ("deepl-node", "unknown language", "DeepLError: Bad request, message: Value for"),
    ("libretranslatepy", "text", TOMORROW),
    ("libretranslatepy", "detect", {"language": "en", "confidence": 100}),
    ("libretranslatepy", "languages", ["ko", "en", "zh"]),
    ("libretranslatepy", "unknown language", "HTTPError: HTTP Error 400: "),
    ("libretranslate-ts", "text", {"translatedText": TOMORROW, "status": 200}),
    ("libretranslate-ts", "auto", {"translatedText": STATION}),
    ("libretranslate-ts", "alternatives", {"translatedText": TOMORROW}),
    ("libretranslate-ts", "detect", {"language": "en", "confidence": 100}),
    ("libretranslate-ts", "languages", [{"code": "ko"}, {"code": "en"}]),
    ("libretranslate-ts", "unknown language", {"error": "xx is not supported"}),
    ("deep-translator", "libre", TOMORROW),
    ("deep-translator", "libre list", [TOMORROW, "Guten Morgen"]),
    ("deep-translator", "deepl", TOMORROW),
    ("deep-translator", "deepl long", 1000),
    ("translate", "libre", TOMORROW),
    ("translate", "libre auto", "Hallo"),
    ("translate", "deepl", TOMORROW),
    ("translate (npm)", "libre", TOMORROW),
    ("translate (npm)", "deepl", TOMORROW),
    ("google-cloud-translate", "text", {"translatedText": TOMORROW}),
    (
        "google-cloud-translate",
        "auto",
        {"translatedText": STATION, "detectedSourceLanguage": "en"},
    ),
    (
        "google-cloud-translate",
        "list",
        [{"translatedText": TOMORROW}, {"translatedText": "Guten Morgen"}],
    ),
    ("google-cloud-translate", "html", {"translatedText": HTML}),
    ("google-cloud-translate", "plain", {"translatedText": "Guten Morgen"}),
    ("google-cloud-translate", "detect", [{"language": "en"}, {"language": "de"}]),
    ("google-cloud-translate", "languages", [{"language": "ar", "name": "Arabisch"}]),
    ("google-cloud-translate", "unknown language", "BadRequest: 400 POST "),
]


def assert_has(found: Any, expected: Any) -> None:
    """A list begins with what is expected, an object has it, a text begins with it."""
    match expected:
        case dict():
            for name, value in expected.items():
                assert_has(found[name], value)
        case list():
            assert len(found) >= len(expected), found
            for one, value in zip(found, expected, strict=False):
                assert_has(one, value)
        case str():
            assert found.startswith(expected)
        case _:
            assert found == expected


@pytest.mark.parametrize(
    ("package", "question", "expected"),
    ANSWERS,
    ids=[f"{package}: {question}" for package, question, _ in ANSWERS],
)
def test_a_client_of_another_api_works(answers, package, question, expected):
    assert_has(answers[package][question], expected)


def test_every_answer_is_looked_at(answers):
    asked = {(name, q) for name, questions in answers.items() for q in questions}
    assert asked == {(package, question) for package, question, _ in ANSWERS}


def test_the_same_text_has_the_same_translation_in_each_api(url):
    text = "Good morning! My name is Anna. See you tomorrow."

    def post(path: str, **fields: Any) -> Any:
        return requests.post(f"{url}/{path}", json=fields, timeout=LIMIT_S).json()

    ours = post("translate", src_lang="en", src_text=text, tgt_lang="de")
    libre = post("translate", source="en", q=text, target="de")
    deepl = post("v2/translate", source_lang="EN", text=[text], target_lang="DE")
    given = {"source": "en", "q": text, "target": "de", "format": "text"}
    google = post("language/translate/v2", **given)
    assert {
        ours["translated"],
        libre["translatedText"],
        deepl["translations"][0]["text"],
        google["data"]["translations"][0]["translatedText"],
    } == {ours["translated"]}
