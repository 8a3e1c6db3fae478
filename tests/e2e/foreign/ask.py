"""Sends a stack the questions of unmodified Python packages for other APIs. `python ask.py
TOPIC URL [FOLDER | KEYS]` prints the answer to each question, or the error that the package
raised, as JSON by package and question."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import deep_translator.deepl
import deepl
from deep_translator import DeeplTranslator, LibreTranslator
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from google.auth.api_key import Credentials
from google.auth.credentials import AnonymousCredentials
from google.cloud import translate_v2
from googleapiclient.discovery import build
from libretranslatepy import LibreTranslateAPI
from translate import Translator
from translate.providers.deepl import DeeplProvider

KEY = "any-key"
TOMORROW = "See you tomorrow"
STATION = "Where is the station?"
HTML = "<p>My name is <b>Anna</b>.</p>"
XML = "<d><t>Good morning</t><p>My name is <x>{Anna}</x>.</p></d>"
TERMS = {"charging station": "Ladestation"}
CHARGING = "Where is charging station?"
GERMAN: dict[str, Any] = {"source_lang": "EN", "target_lang": "DE"}
FRENCH: dict[str, Any] = {"source_lang": "EN", "target_lang": "FR"}
BAHNHOF = "Wo ist der Bahnhof?"
Questions = Mapping[str, Callable[[], Any]]


def answer(question: Callable[[], Any]) -> Any:
    """Return the answer to a question, or the error as text."""
    try:
        return question()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run_deepl(url: str, *texts: str) -> list[str]:
    """Translate texts into German by the command line of `deepl`."""
    command = [sys.executable, "-m", "deepl", "--auth-key", KEY, "--server-url", url]
    command += ["text", "--from", "EN", "--to", "DE", *texts]
    said = subprocess.check_output(command, stderr=subprocess.PIPE, timeout=60)
    return said.decode().splitlines()


def ask_deepl(url: str) -> Questions:
    """Questions by the package `deepl`, and by its command line."""
    client = deepl.DeepLClient(KEY, server_url=url)

    def translate(text: Any, **given: Any) -> Any:
        answer = client.translate_text(text, **given)
        return [vars(a) for a in answer] if isinstance(answer, list) else vars(answer)

    return {
        "text": lambda: translate(TOMORROW, **GERMAN),
        "auto": lambda: translate(STATION, target_lang="FR"),
        "list": lambda: translate(
            [STATION, BAHNHOF], target_lang="FR", context="A journey"
        ),
        "html": lambda: translate(HTML, tag_handling="html", **GERMAN),
        "xml": lambda: translate(XML, tag_handling="xml", ignore_tags=["x"], **GERMAN),
        "unknown language": lambda: translate(TOMORROW, target_lang="XX"),
        "sources": lambda: [vars(row) for row in client.get_source_languages()],
        "targets": lambda: [vars(row) for row in client.get_target_languages()],
        "usage": lambda: client.get_usage().character.count >= len(TOMORROW),
        "command line": lambda: run_deepl(url, TOMORROW, "Good morning"),
    }


def ask_libretranslatepy(url: str) -> Questions:
    api = LibreTranslateAPI(url)
    return {
        "text": lambda: api.translate(TOMORROW, "en", "de"),
        "detect": lambda: api.detect(STATION)[0],
        "languages": lambda: [row["code"] for row in api.languages()],
        "unknown language": lambda: api.translate(TOMORROW, "en", "xx"),
    }


def ask_deep_translator(url: str) -> Questions:
    """Questions by `deep-translator`, which puts everything into the URL."""
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


def ask_translate(url: str) -> Questions:
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


def ask_google(url: str) -> Questions:
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
        "detect": lambda: client.detect_language([STATION, BAHNHOF]),
        "languages": lambda: client.get_languages("de"),
        "unknown language": lambda: client.translate(TOMORROW, target_language="xx"),
    }


def ask_generated(url: str) -> Questions:
    """Questions by `google-api-python-client`, which reads Google's description."""
    options = {"api_endpoint": f"{url}/language/translate/"}
    client = build("translate", "v2", developerKey=KEY, client_options=options)
    german = {"q": [TOMORROW], "source": "en", "target": "de"}
    unknown = german | {"target": "xx"}
    return {
        "text": client.translations().translate(body=german).execute,
        "text by URL": client.translations().list(**german).execute,
        "detect": client.detections().detect(body={"q": STATION}).execute,
        "unknown language": client.translations().translate(body=unknown).execute,
    }


def ask_for_texts(url: str, _: str) -> dict[str, Questions]:
    """Questions about texts, by all packages."""
    return {
        "deepl": ask_deepl(url),
        "libretranslatepy": ask_libretranslatepy(url),
        "deep-translator": ask_deep_translator(url),
        "translate": ask_translate(url),
        "google-cloud-translate": ask_google(url),
        "google-api-python-client": ask_generated(url),
    }


def ask_for_documents(url: str, name: str) -> dict[str, Questions]:
    """Questions about documents in a folder, by `deepl`."""
    client, folder = deepl.DeepLClient(KEY, server_url=url), Path(name)

    def translate(name: str, content: str, **given: str) -> Any:
        source, target = folder / name, folder / f"translated-{name}"
        source.write_text(content)
        languages = given or GERMAN
        status = client.translate_document_from_filepath(source, target, **languages)
        return [str(status), status.billed_characters, target.read_text()]

    questions: Questions = {
        "text": lambda: translate("a.txt", f"{TOMORROW}\n"),
        "damaged": lambda: translate("a.json", "{"),
        "equal languages, found": lambda: translate("a.txt", BAHNHOF, target_lang="DE"),
    }
    return {"deepl": questions}


def ask_version_2(client: Any) -> Mapping[str, Any]:
    """Use a glossary of one language pair."""
    translate = partial(client.translate_text, CHARGING, **GERMAN)
    twice = partial(client.create_glossary_from_csv, "a", "EN", "DE", "a,b\na,c")
    made = client.create_glossary("By two", "EN", "DE", TERMS)
    table = client.create_glossary_from_csv("From CSV", "EN", "DE", 'a,"b, c"\n')
    found = {
        "made": [made.name, made.ready, made.source_lang, made.entry_count],
        "csv": client.get_glossary_entries(table),
        "listed": [one.name for one in client.list_glossaries()],
        "found": client.get_glossary(made.glossary_id).name,
        "entries": client.get_glossary_entries(made),
        "text": translate(glossary=made).text,
        "both": translate(glossary_ids=[table, made]).text,
        "by itself": client.translate_text_with_glossary(CHARGING, made).text,
        "double": answer(twice),
    }
    for one in (made, table):
        client.delete_glossary(one)
    gone = answer(lambda: client.get_glossary(made.glossary_id))
    unused = answer(lambda: translate(glossary=made.glossary_id))
    return found | {"gone": gone, "unused": unused}


def ask_version_3(client: Any) -> Mapping[str, Any]:
    """Use a glossary of several language pairs."""
    german = MultilingualGlossaryDictionaryEntries("EN", "DE", TERMS)
    french = MultilingualGlossaryDictionaryEntries("EN", "FR", {"a": "b"})
    more = MultilingualGlossaryDictionaryEntries("EN", "DE", {"work order": "Auftrag"})
    made = client.create_multilingual_glossary("By three", [german, french])
    found = {
        "made": [
            (d.source_lang, d.target_lang, d.entry_count) for d in made.dictionaries
        ],
        "text": client.translate_text(CHARGING, glossary=made, **GERMAN).text,
        "renamed": client.update_multilingual_glossary_name(made, "Other").name,
    }
    client.update_multilingual_glossary_dictionary(made, more)
    entries = client.get_multilingual_glossary_entries(made, "EN", "DE")
    replaced = client.replace_multilingual_glossary_dictionary(made, more)
    client.delete_multilingual_glossary_dictionary(made, **FRENCH)
    left = client.get_multilingual_glossary(made.glossary_id)
    found |= {
        "entries": [one.entries for one in entries.dictionaries],
        "replaced": replaced.entry_count,
        "left": [one.target_lang for one in left.dictionaries],
        "listed": [one.name for one in client.list_multilingual_glossaries()],
        "other pair": answer(
            lambda: client.translate_text(CHARGING, glossary=made.glossary_id, **FRENCH)
        ),
    }
    client.delete_multilingual_glossary(made)
    return found


def ask_for_glossaries(url: str, _: str) -> dict[str, Any]:
    """Use glossaries by both versions of DeepL's API."""
    client = deepl.DeepLClient(KEY, server_url=url)
    return {
        "deepl 2": answer(lambda: ask_version_2(client)),
        "deepl 3": answer(lambda: ask_version_3(client)),
    }


def translate_with_deepl(url: str, key: str) -> Any:
    """Translate by `deepl`, without its retries."""
    deepl.http_client.max_network_retries = 0
    client = deepl.DeepLClient(key, server_url=url)
    return client.translate_text(TOMORROW, source_lang="EN", target_lang="KO").text


def read_usage(url: str, key: str) -> Any:
    """Return the used characters and their limit, by `deepl`."""
    found = deepl.DeepLClient(key, server_url=url).get_usage().character
    return [found.count, found.limit]


def translate_with_google(url: str, key: str) -> Any:
    """Translate by `google-cloud-translate`."""
    client = translate_v2.Client(
        credentials=Credentials(key), client_options={"api_endpoint": url}
    )
    given = {"source_language": "en", "target_language": "ko"}
    return client.translate(TOMORROW, **given)["translatedText"]


#: Questions that are asked with every key.
KEYED: dict[str, Callable[[str, str], Any]] = {
    "deepl": translate_with_deepl,
    "deepl: usage": read_usage,
    "libretranslatepy": lambda url, key: LibreTranslateAPI(f"{url}/", key).translate(
        TOMORROW, "en", "ko"
    ),
    "google-cloud-translate": translate_with_google,
}


def ask_with_keys(url: str, keys: str) -> dict[str, Questions]:
    """Questions about a text with each of the keys, which are JSON by name."""
    return {
        package: {
            name: partial(ask, url, key) for name, key in json.loads(keys).items()
        }
        for package, ask in KEYED.items()
    }


TOPICS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "texts": ask_for_texts,
    "documents": ask_for_documents,
    "glossaries": ask_for_glossaries,
    "keys": ask_with_keys,
}


def main(topic: str, url: str, argument: str = "") -> None:
    """Print the answers on a topic. Values that are not callable are answers already."""
    packages = TOPICS[topic](url, argument)
    found = {
        package: {
            name: answer(q) if callable(q) else q for name, q in questions.items()
        }
        if isinstance(questions, dict)
        else questions
        for package, questions in packages.items()
    }
    json.dump(found, sys.stdout, default=str)


if __name__ == "__main__":
    main(*sys.argv[1:])
