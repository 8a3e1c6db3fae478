"""Unmodified clients of LibreTranslate, DeepL and Google on the real stack: texts, documents,
glossaries, and keys of several kinds. `foreign/answers.yaml` has the expected answers.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from contract import variables
from tests import programs
from tests.e2e.clients import FOREIGN, ask, prepare_node
from tests.e2e.real_stack import delete_glossaries
from tests.e2e.reverse_proxy import start_proxy
from tests.scripted_server import LIMIT_S

ANSWERS = yaml.safe_load((FOREIGN / "answers.yaml").read_text("utf-8"))


def add_key(run: Path, name: str, *options: str) -> str:
    """Add a key as an operator does, and return it."""
    command = [sys.executable, "-m", "gateway", "keys", "add", "--name", name, *options]
    environment = os.environ | {variables.RUN_DIR.name: str(run)}
    return programs.run(*command, env=environment).strip()


def ask_with_keys(folder: Path) -> dict[str, Any]:
    """Return the answers for each key from a gateway that requires keys."""
    run = folder / "run"
    settings = {"BABELGATE_KEYS": "required", "BABELGATE_RUN_DIR": str(run)}
    add = partial(add_key, run)
    with start_proxy(folder, None, **settings) as proxy:
        # One package caches translations, so the right key comes last.
        keys = {
            "wrong": "any-key",
            "spent": add("spent", "--characters-per-month", "1"),
            "limited": add("limited", "--requests-per-minute", "1"),
            "early": add("early", "--requests-per-minute", "30", "--burst", "1"),
            "right": add("right"),
        }
        once = {"api_key": keys["limited"]}
        assert requests.get(f"{proxy.url}/v2/languages", once, timeout=LIMIT_S).ok
        return ask("keys", proxy.url, json.dumps(keys))


@pytest.fixture(scope="module")
def find_answers(
    url: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """A function that sends all clients' questions on a topic, once."""

    @cache
    def find(topic: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(topic)
        if topic == "keys":
            return ask_with_keys(folder)
        if topic == "glossaries":
            delete_glossaries(url)
        return ask(topic, url, str(folder))

    return find


def assert_has(found: Any, expected: Any) -> None:
    """Check that a text or list begins with the expected value, or that an object has it."""
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
    ("topic", "package", "question"),
    [
        pytest.param(topic, package, question, id=f"{topic}, {package}: {question}")
        for topic, packages in ANSWERS.items()
        for package, questions in packages.items()
        for question in questions
    ],
)
def test_a_client_of_another_api_works(find_answers, topic, package, question):
    found = find_answers(topic)[package][question]
    assert_has(found, ANSWERS[topic][package][question])


@pytest.mark.parametrize("topic", ANSWERS)
def test_every_answer_is_looked_at(find_answers, topic):
    asked = {package: set(found) for package, found in find_answers(topic).items()}
    assert asked == {package: set(those) for package, those in ANSWERS[topic].items()}


def test_formatjs_reads_messages_as_recorded():
    recorded = Path(__file__).parents[1] / "text" / "messages.json"
    script = prepare_node() / "messages.mjs"
    said = programs.run("node", script, recorded)
    assert json.loads(said) == json.loads(recorded.read_text("utf-8"))
