"""Unmodified clients of LibreTranslate, DeepL and Google where keys are required: how each
sends its key, and what it makes of a refusal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from contract import variables
from tests import programs
from tests.e2e.clients import ask
from tests.e2e.door import open_door
from tests.e2e.test_dialects import assert_has
from tests.gateway.fake_torchserve import LIMIT_S

#: One package keeps translations, so that the right key comes last.
KEYS = ("wrong", "spent", "limited", "right")
#: How many characters `ask_keys.py` and `ask_keys.mjs` translate.
CHARACTERS = len("See you tomorrow")
TRANSLATED = "ko:See you tomorrow"
#: What each package makes of a wrong key, of one whose characters are used up, of one that
#: has asked too often, and of a right one. An answer begins so.
ANSWERS: dict[str, tuple[Any, Any, Any, Any]] = {
    "deepl": (
        "AuthorizationException: ",
        "QuotaExceededException: ",
        "TooManyRequestsException: ",
        TRANSLATED,
    ),
    "deepl: usage": (
        "AuthorizationException: ",
        [0, 1],
        "TooManyRequestsException: ",
        [CHARACTERS, 10**12],
    ),
    "libretranslatepy": (
        "HTTPError: HTTP Error 403: ",
        "HTTPError: HTTP Error 403: ",
        "HTTPError: HTTP Error 429: ",
        TRANSLATED,
    ),
    "deep-translator": (
        "AuthorizationException: ",
        "AuthorizationException: ",
        "ServerException: ERR_TOO_MANY_REQUESTS",
        TRANSLATED,
    ),
    "deep-translator: deepl": (
        "AuthorizationException: ",
        "ServerException: API server error",
        "ServerException: ERR_TOO_MANY_REQUESTS",
        TRANSLATED.replace("ko", "pt"),
    ),
    "translate": (
        "TranslationError: HTTP Error 403: ",
        "TranslationError: HTTP Error 403: ",
        "TranslationError: HTTP Error 429: ",
        TRANSLATED,
    ),
    "translate: deepl": (
        "HTTPError: 403 ",
        "HTTPError: 456 ",
        "HTTPError: 429 ",
        TRANSLATED,
    ),
    "google-cloud-translate": (
        "Forbidden: 403 ",
        "Forbidden: 403 ",
        "TooManyRequests: 429 ",
        TRANSLATED,
    ),
    "deepl-node": (
        "AuthorizationError: ",
        "QuotaExceededError: ",
        "TooManyRequestsError: ",
        TRANSLATED,
    ),
    "libretranslate-ts": (
        {"error": "Invalid API key: "},
        {"error": "These texts have 16 characters. "},
        {"error": "Slowdown: "},
        TRANSLATED,
    ),
    "translate (npm): deepl": (
        "Error: Auth Error, please review the key for DeepL",
        "Error: ",
        "Error: Error 429",
        TRANSLATED,
    ),
}


def add_key(run: Path, name: str, *options: str) -> str:
    """As an operator does."""
    command = [sys.executable, "-m", "gateway", "keys", "add", "--name", name, *options]
    environment = os.environ | {variables.RUN_DIR.name: str(run)}
    return programs.run(*command, env=environment).strip()


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """By package and key."""
    folder = tmp_path_factory.mktemp("keys")
    run = folder / "run"
    with open_door(
        folder, None, BABELGATE_KEYS="required", BABELGATE_RUN_DIR=str(run)
    ) as door:
        keys = {
            "wrong": "any-key",
            "spent": add_key(run, "spent", "--characters-per-month", "1"),
            "limited": add_key(run, "limited", "--requests-per-minute", "1"),
            "right": add_key(run, "right"),
        }
        assert tuple(keys) == KEYS
        once = {"api_key": keys["limited"]}
        assert requests.get(f"{door.url}/v2/languages", once, timeout=LIMIT_S).ok
        return ask("ask_keys", door.url, json.dumps(keys))


@pytest.mark.parametrize("package", ANSWERS)
def test_a_client_of_another_api_understands_what_its_key_allows(answers, package):
    found = answers[package]
    for which, expected in zip(KEYS, ANSWERS[package], strict=True):
        assert_has(found[which], expected)


def test_every_answer_is_looked_at(answers):
    assert answers.keys() == ANSWERS.keys()
