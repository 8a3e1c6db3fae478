"""Makes, uses and deletes glossaries with the unmodified package `deepl` and its command
line. `python ask_glossaries.py URL` prints what each step was answered, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import deepl
from ask import KEY, answer
from deepl.api_data import MultilingualGlossaryDictionaryEntries

TERMS = {"charging station": "Ladestation"}
TEXT = "Where is charging station?"
LANGUAGES = {"source_lang": "EN", "target_lang": "DE"}


def ask_version_2(client: Any) -> Mapping[str, Any]:
    """A glossary of one pair of languages."""
    made = client.create_glossary("By two", "EN", "DE", TERMS)
    table = client.create_glossary_from_csv("From CSV", "EN", "DE", 'a,"b, c"\n')
    found = {
        "made": [made.name, made.ready, made.source_lang, made.entry_count],
        "csv": client.get_glossary_entries(table),
        "listed": [one.name for one in client.list_glossaries()],
        "found": client.get_glossary(made.glossary_id).name,
        "entries": client.get_glossary_entries(made),
        "text": client.translate_text(TEXT, glossary=made, **LANGUAGES).text,
        "both": client.translate_text(
            TEXT, glossary_ids=[table, made], **LANGUAGES
        ).text,
        "by itself": client.translate_text_with_glossary(TEXT, made).text,
        "double": answer(
            lambda: client.create_glossary_from_csv("a", "EN", "DE", "a,b\na,c")
        ),
    }
    for one in (made, table):
        client.delete_glossary(one)
    gone = answer(lambda: client.get_glossary(made.glossary_id))
    unused = answer(
        lambda: client.translate_text(TEXT, glossary=made.glossary_id, **LANGUAGES)
    )
    return found | {"gone": gone, "unused": unused}


def ask_version_3(client: Any) -> Mapping[str, Any]:
    """A glossary of several pairs of languages."""
    german = MultilingualGlossaryDictionaryEntries("EN", "DE", TERMS)
    french = MultilingualGlossaryDictionaryEntries("EN", "FR", {"a": "b"})
    more = MultilingualGlossaryDictionaryEntries("EN", "DE", {"work order": "Auftrag"})
    made = client.create_multilingual_glossary("By three", [german, french])
    found = {
        "made": [
            (d.source_lang, d.target_lang, d.entry_count) for d in made.dictionaries
        ],
        "text": client.translate_text(TEXT, glossary=made, **LANGUAGES).text,
        "renamed": client.update_multilingual_glossary_name(made, "Other").name,
    }
    client.update_multilingual_glossary_dictionary(made, more)
    entries = client.get_multilingual_glossary_entries(made, "EN", "DE")
    replaced = client.replace_multilingual_glossary_dictionary(made, more)
    client.delete_multilingual_glossary_dictionary(
        made, source_lang="EN", target_lang="FR"
    )
    left = client.get_multilingual_glossary(made.glossary_id)
    found |= {
        "entries": [one.entries for one in entries.dictionaries],
        "replaced": replaced.entry_count,
        "left": [one.target_lang for one in left.dictionaries],
        "listed": [one.name for one in client.list_multilingual_glossaries()],
        "other pair": answer(
            lambda: client.translate_text(
                TEXT, glossary=made.glossary_id, source_lang="EN", target_lang="FR"
            )
        ),
    }
    client.delete_multilingual_glossary(made)
    return found


def ask_command_line(url: str) -> Mapping[str, Any]:
    """The same by `python -m deepl`."""
    pair = ["--from", "EN", "--to", "DE"]
    made = _run(
        url,
        "glossary",
        "create",
        "--name",
        "By hand",
        *pair,
        "charging station=Ladestation",
    )
    glossary_id = made[-1].split("\t")[0].strip()
    entries = _run(url, "glossary", "entries", glossary_id)
    text = _run(url, "text", *pair, "--glossary-id", glossary_id, TEXT)
    listed = _run(url, "glossary", "list")
    deleted = _run(url, "glossary", "delete", glossary_id)
    return {
        "made": made[0].partition(" (")[0],
        "entries": entries,
        "text": text,
        "is listed": any(glossary_id in line for line in listed),
        "deleted": deleted[0].replace(glossary_id, "it"),
    }


def _run(url: str, *arguments: str) -> list[str]:
    """What the command line prints."""
    command = [sys.executable, "-m", "deepl", "--auth-key", KEY, "--server-url", url]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


if __name__ == "__main__":
    asking = deepl.DeepLClient(KEY, server_url=sys.argv[1])
    json.dump(
        {
            "deepl 2": answer(lambda: ask_version_2(asking)),
            "deepl 3": answer(lambda: ask_version_3(asking)),
            "deepl command line": answer(lambda: ask_command_line(sys.argv[1])),
        },
        sys.stdout,
    )
