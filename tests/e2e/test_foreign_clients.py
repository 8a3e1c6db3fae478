"""Unmodified clients of LibreTranslate, DeepL and Google on the real stack: texts, documents,
glossaries, and keys of several kinds. `foreign/answers.yaml` has the expected answers."""

import json
import os
import sys
from functools import partial
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


def has(found: Any, expected: Any) -> bool:
    """Whether a text or list begins with the expected value, or an object has it."""
    match found, expected:
        case dict(), dict():
            return all(has(found.get(name), it) for name, it in expected.items())
        case list(), list():
            return len(found) >= len(expected) and all(map(has, found, expected))
        case str(), str():
            return found.startswith(expected)
        case _:
            return bool(found == expected)


@pytest.mark.parametrize("topic", ANSWERS)
def test_clients_of_other_apis_work(url, tmp_path, topic):
    if topic == "glossaries":
        delete_glossaries(url)
    is_keyed, expected = topic == "keys", ANSWERS[topic]
    found = ask_with_keys(tmp_path) if is_keyed else ask(topic, url, str(tmp_path))
    for package, answers in found.items():
        assert answers.keys() == expected[package].keys()
        wrong = {
            q: it for q, it in answers.items() if not has(it, expected[package][q])
        }
        assert wrong == {}, package
    assert found.keys() == expected.keys()


def test_formatjs_reads_messages_as_recorded():
    recorded = Path(__file__).parents[1] / "text" / "messages.json"
    script = prepare_node() / "messages.mjs"
    said = programs.run("node", script, recorded)
    assert json.loads(said) == json.loads(recorded.read_text("utf-8"))
