"""Asks with the unmodified Python packages of other APIs and several keys. `python
ask_with_keys.py URL NAME=KEY …` prints by package and key's name what was answered, or the
error that the package raised, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import deepl
from deep_translator import LibreTranslator
from google.auth import api_key
from google.cloud import translate_v2
from libretranslatepy import LibreTranslateAPI

TEXT = "Hello"
deepl.http_client.max_network_retries = 0

Ask = Callable[[str, str], Any]


def ask_deepl(url: str, key: str) -> Any:
    """The translation, and what was used with the key."""
    client = deepl.DeepLClient(key, server_url=url)
    found = client.translate_text(TEXT, source_lang="EN", target_lang="KO")
    usage = client.get_usage().character
    return [found.text, usage.count, usage.limit]


def ask_google(url: str, key: str) -> Any:
    """The translation."""
    client = translate_v2.Client(
        credentials=api_key.Credentials(key), client_options={"api_endpoint": url}
    )
    found = client.translate(TEXT, source_language="en", target_language="ko")
    return found["translatedText"]


PACKAGES: dict[str, Ask] = {
    "deepl": ask_deepl,
    "google-cloud-translate": ask_google,
    "libretranslatepy": lambda url, key: LibreTranslateAPI(url, key).translate(
        TEXT, "en", "ko"
    ),
    "deep-translator": lambda url, key: LibreTranslator(
        "en", "ko", api_key=key, custom_url=f"{url}/"
    ).translate(TEXT),
}


def answer(ask: Ask, url: str, key: str) -> Any:
    """The answer, or the error as text."""
    try:
        return ask(url, key)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    url, *given = sys.argv[1:]
    keys = dict(one.split("=", 1) for one in given)
    found = {
        package: {name: answer(ask, url, key) for name, key in keys.items()}
        for package, ask in PACKAGES.items()
    }
    json.dump(found, sys.stdout)
