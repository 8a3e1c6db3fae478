"""Asks a stack with the unmodified Python packages of other APIs. `python ask.py URL` prints
what each question was answered, or the error that the package raised, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import deep_translator.deepl
import deepl
from deep_translator import DeeplTranslator, LibreTranslator
from google.auth.credentials import AnonymousCredentials
from google.cloud import translate_v2
from libretranslatepy import LibreTranslateAPI
from translate import Translator
from translate.providers.deepl import DeeplProvider

KEY = "any-key"
TOMORROW = "See you tomorrow"
STATION = "Where is the station?"
HTML = "<p>My name is <b>Anna</b>.</p>"
XML = "<d><t>Good morning</t><p>My name is <x>{Anna}</x>.</p></d>"


GERMAN: dict[str, Any] = {"source_lang": "EN", "target_lang": "DE"}


def ask_deepl(url: str) -> Mapping[str, Callable[[], Any]]:
    """Questions by the package `deepl`, and by its command line."""
    client = deepl.DeepLClient(KEY, server_url=url)

    def translate(text: Any, **given: Any) -> Any:
        answer = client.translate_text(text, **given)
        return [vars(a) for a in answer] if isinstance(answer, list) else vars(answer)

    return {
        "text": lambda: translate(TOMORROW, **GERMAN),
        "auto": lambda: translate(STATION, target_lang="FR"),
        "list": lambda: translate(
            [STATION, "Wo ist der Bahnhof?"], target_lang="FR", context="A journey"
        ),
        "html": lambda: translate(HTML, tag_handling="html", **GERMAN),
        "xml": lambda: translate(XML, tag_handling="xml", ignore_tags=["x"], **GERMAN),
        "bad xml": lambda: translate("<a>b</c>", tag_handling="xml", **GERMAN),
        "variant": lambda: translate(TOMORROW, source_lang="DE", target_lang="PT-BR"),
        "unknown language": lambda: translate(TOMORROW, target_lang="XX"),
        "formality": lambda: translate(TOMORROW, formality="more", **GERMAN),
        "prefer formality": lambda: translate(
            TOMORROW, formality="prefer_more", **GERMAN
        ),
        **_ask_about_deepl(client),
        "command line": lambda: _run_deepl(url, TOMORROW, "Good morning"),
    }


def _ask_about_deepl(client: Any) -> Mapping[str, Callable[[], Any]]:
    return {
        "sources": lambda: [vars(row) for row in client.get_source_languages()],
        "targets": lambda: [vars(row) for row in client.get_target_languages()],
        "usage": lambda: client.get_usage().character.count,
        "pairs": lambda: len(client.get_glossary_languages()),
        "glossaries": lambda: [one.name for one in client.list_glossaries()],
    }


def _run_deepl(url: str, *texts: str) -> list[str]:
    """What the command line prints."""
    command = [sys.executable, "-m", "deepl", "--auth-key", KEY, "--server-url", url]
    options = ["text", "--from", "EN", "--to", "DE"]
    done = subprocess.run(
        [*command, *options, *texts],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def ask_libretranslatepy(url: str) -> Mapping[str, Callable[[], Any]]:
    """Questions by `libretranslatepy`."""
    api = LibreTranslateAPI(url)
    return {
        "text": lambda: api.translate(TOMORROW, "en", "de"),
        "detect": lambda: api.detect(STATION)[0],
        "languages": lambda: [row["code"] for row in api.languages()],
        "unknown language": lambda: api.translate(TOMORROW, "en", "xx"),
    }


def ask_deep_translator(url: str) -> Mapping[str, Callable[[], Any]]:
    """Questions by `deep-translator`, which puts all into the URL."""
    deep_translator.deepl.BASE_URLS["DEEPL_FREE"] = f"{url}/{{version}}/"
    libre = LibreTranslator("en", "de", api_key=KEY, custom_url=f"{url}/")
    by_deepl = DeeplTranslator("en", "de", api_key=KEY)
    of_chinese = DeeplTranslator("zh", "de", api_key=KEY)
    return {
        "libre": lambda: libre.translate(TOMORROW),
        "libre list": lambda: libre.translate_batch([TOMORROW, "Good morning"]),
        "deepl": lambda: by_deepl.translate(TOMORROW),
        "deepl long": lambda: of_chinese.translate("你好。 " * 1000).count("Hallo"),
    }


def ask_translate(url: str) -> Mapping[str, Callable[[], Any]]:
    """Questions by `translate`."""
    DeeplProvider.base_free_url = f"{url}/v2/translate"

    def translate(provider: str, text: str, source: str) -> Any:
        given = {"secret_access_key": KEY, "base_url": url}
        languages = {"from_lang": source, "to_lang": "de"}
        return Translator(provider=provider, **languages, **given).translate(text)

    return {
        "libre": lambda: translate("libre", TOMORROW, "en"),
        "libre auto": lambda: translate("libre", "Bonjour", "autodetect"),
        "deepl": lambda: translate("deepl", TOMORROW, "en"),
    }


def ask_google(url: str) -> Mapping[str, Callable[[], Any]]:
    """Questions by `google-cloud-translate`."""
    client = translate_v2.Client(
        credentials=AnonymousCredentials(), client_options={"api_endpoint": url}
    )
    german = {"source_language": "en", "target_language": "de"}
    return {
        "text": lambda: client.translate(TOMORROW, **german),
        "auto": lambda: client.translate(STATION, target_language="fr"),
        "list": lambda: client.translate([TOMORROW, "Good morning"], **german),
        "html": lambda: client.translate(HTML, **german),
        "plain": lambda: client.translate("Good morning", format_="text", **german),
        "detect": lambda: client.detect_language([STATION, "Wo ist der Bahnhof?"]),
        "languages": lambda: client.get_languages("de"),
        "unknown language": lambda: client.translate(TOMORROW, target_language="xx"),
    }


QUESTIONERS = {
    "deepl": ask_deepl,
    "libretranslatepy": ask_libretranslatepy,
    "deep-translator": ask_deep_translator,
    "translate": ask_translate,
    "google-cloud-translate": ask_google,
}


def answer(question: Callable[[], Any]) -> Any:
    """The answer, or the error as text."""
    try:
        return question()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    found = {
        package: {name: answer(question) for name, question in ask(sys.argv[1]).items()}
        for package, ask in QUESTIONERS.items()
    }
    json.dump(found, sys.stdout)
