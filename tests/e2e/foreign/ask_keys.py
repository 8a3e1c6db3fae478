"""Asks a stack with the unmodified Python packages of other APIs, each with several keys.
`python ask_keys.py URL '{"NAME": "KEY", …}'` prints each answer or error as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import deep_translator.deepl
import deepl
from ask import TOMORROW, answer
from deep_translator import DeeplTranslator, LibreTranslator
from google.auth.api_key import Credentials
from google.cloud import translate_v2
from libretranslatepy import LibreTranslateAPI
from translate import Translator
from translate.providers.deepl import DeeplProvider


def ask_deepl(url: str, key: str) -> Any:
    """By `deepl`, without its patience."""
    deepl.http_client.max_network_retries = 0
    client = deepl.DeepLClient(key, server_url=url)
    return client.translate_text(TOMORROW, source_lang="EN", target_lang="KO").text


def ask_deepl_for_usage(url: str, key: str) -> Any:
    """By `deepl`: the characters, and their limit."""
    found = deepl.DeepLClient(key, server_url=url).get_usage().character
    return [found.count, found.limit]


def ask_libretranslatepy(url: str, key: str) -> Any:
    """By `libretranslatepy`."""
    return LibreTranslateAPI(f"{url}/", key).translate(TOMORROW, "en", "ko")


def ask_deep_translator(url: str, key: str) -> Any:
    """By `deep-translator`, as LibreTranslate."""
    libre = LibreTranslator("en", "ko", api_key=key, custom_url=f"{url}/")
    return libre.translate(TOMORROW)


def ask_deep_translator_for_deepl(url: str, key: str) -> Any:
    """By `deep-translator`, as DeepL."""
    deep_translator.deepl.BASE_URLS["DEEPL_FREE"] = f"{url}/{{version}}/"
    return DeeplTranslator("en", "pt", api_key=key).translate(TOMORROW)


def ask_translate(url: str, key: str) -> Any:
    """By `translate`, as LibreTranslate."""
    given = {"secret_access_key": key, "base_url": url}
    asked = Translator(provider="libre", from_lang="en", to_lang="ko", **given)
    return asked.translate(TOMORROW)


def ask_translate_for_deepl(url: str, key: str) -> Any:
    """By `translate`, as DeepL."""
    DeeplProvider.base_free_url = f"{url}/v2/translate"
    asked = Translator(
        provider="deepl", from_lang="en", to_lang="ko", secret_access_key=key
    )
    return asked.translate(TOMORROW)


def ask_google(url: str, key: str) -> Any:
    """By `google-cloud-translate`."""
    client = translate_v2.Client(
        credentials=Credentials(key), client_options={"api_endpoint": url}
    )
    given = {"source_language": "en", "target_language": "ko"}
    return client.translate(TOMORROW, **given)["translatedText"]


QUESTIONERS: dict[str, Callable[[str, str], Any]] = {
    "deepl": ask_deepl,
    "deepl: usage": ask_deepl_for_usage,
    "libretranslatepy": ask_libretranslatepy,
    "deep-translator": ask_deep_translator,
    "deep-translator: deepl": ask_deep_translator_for_deepl,
    "translate": ask_translate,
    "translate: deepl": ask_translate_for_deepl,
    "google-cloud-translate": ask_google,
}


if __name__ == "__main__":
    _, url, keys = sys.argv
    found = {
        package: {
            name: answer(lambda ask=ask, key=key: ask(url, key))
            for name, key in json.loads(keys).items()
        }
        for package, ask in QUESTIONERS.items()
    }
    json.dump(found, sys.stdout)
