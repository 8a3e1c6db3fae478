"""Unmodified clients of LibreTranslate, DeepL and Google against the real stack. They are
installed once, in environments of their own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from benchmarks.compare.peers import environments
from deploy import programs
from deploy.stack import ROOT

FOREIGN = Path(__file__).with_name("foreign")
PYTHON, NODE = ROOT / ".venv/clients", ROOT / ".venv/clients-node"
LIMIT_S = 300

TOMORROW, STATION = "Bis morgen", "Où est la gare"
HTML = "<p>Ich heiße <b>Anna</b>.</p>"
XML = "<d><t>Guten Morgen</t><p>Ich heiße <x>{Anna}</x>.</p></d>"


def run(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def prepare_node() -> Path:
    """The npm packages, and the questions beside them: a module looks for packages there."""
    names = ("package.json", "package-lock.json", "ask.mjs", "ask_keys.mjs")
    content = b"\0".join((FOREIGN / name).read_bytes() for name in names)
    mark, digest = NODE / "made-of", hashlib.sha256(content).hexdigest()
    if not mark.exists() or mark.read_text() != digest:
        NODE.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(FOREIGN / name, NODE)
        run("npm", "ci", "--no-audit", "--no-fund", "--prefix", NODE)
        mark.write_text(digest)
    return NODE / "ask.mjs"


@pytest.fixture(scope="session")
def answers(url: str) -> dict[str, Any]:
    """By package and question."""
    for program in (programs.NODE, programs.NPM):
        assert programs.find(program), f"{program.name} is missing: {program.package}"
    python = environments.prepare(FOREIGN / "requirements.txt", PYTHON)
    by_python = json.loads(run(python, FOREIGN / "ask.py", url))
    by_node = json.loads(run("node", prepare_node(), url))
    return {**by_python, **by_node}


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
    ("deepl", "glossaries", "GlossaryNotFoundException: "),
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

    def ask(path: str, **fields: Any) -> Any:
        return requests.post(f"{url}/{path}", json=fields, timeout=LIMIT_S).json()

    ours = ask("translate", src_lang="en", src_text=text, tgt_lang="de")
    libre = ask("translate", source="en", q=text, target="de")
    deepl = ask("v2/translate", source_lang="EN", text=[text], target_lang="DE")
    given = {"source": "en", "q": text, "target": "de", "format": "text"}
    google = ask("language/translate/v2", **given)
    assert {
        ours["translated"],
        libre["translatedText"],
        deepl["translations"][0]["text"],
        google["data"]["translations"][0]["translatedText"],
    } == {ours["translated"]}
