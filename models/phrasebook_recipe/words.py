"""Makes `text/words.txt`, the words that identify the language of short texts in the gateway.
It omits one meaning in six, on which a test measures the identification.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import regex
import yaml

from models.phrasebook_recipe import items, phrasebook
from models.phrasebook_recipe.items import LANGUAGES

WORDS = Path(__file__).parents[2] / "text/words.txt"
EVERYDAY = Path(__file__).with_name("everyday.yaml")
_HELD_OUT_SHARE = 6
SLOT = regex.compile(r"\{\w+\}")
#: Marks included: Hindi's vowel signs are marks.
WORD = regex.compile(r"[\p{L}\p{M}]+")


def write_words() -> str:
    """Return a line per language: its code and its sorted words."""
    everyday: dict[str, str] = yaml.safe_load(EVERYDAY.read_text("utf-8"))
    words = {language: set(text.split()) for language, text in everyday.items()}
    for language, text in list_texts(is_held_out=False):
        words[language].update(WORD.findall(SLOT.sub(" ", fold(text))))
    return "".join(
        f"{language} {' '.join(sorted(found))}\n" for language, found in words.items()
    )


def _list_meanings() -> Iterator[Mapping[str, tuple[str, ...]]]:
    for phrase in phrasebook.load():
        if phrase.domain != phrasebook.WORDS or not phrase.slots:
            yield phrase.wordings
    for group in items.list_names().values():
        for name in group:
            yield {language: name.wordings(language) for language in LANGUAGES}


def list_texts(*, is_held_out: bool) -> Iterator[tuple[str, str]]:
    """Yield the languages and wordings of the held-out meanings, or of the others."""
    for wordings in _list_meanings():
        digest = hashlib.sha256(fold(wordings["en"][0]).encode()).digest()
        if (digest[0] % _HELD_OUT_SHARE == 0) is is_held_out:
            for language, texts in wordings.items():
                yield from ((language, text) for text in texts)


def fold(text: str) -> str:
    """Return a text for comparison: without capitals or surrounding punctuation."""
    return items.clean(text).lower().strip(" .!?¡¿,。！？।؟،…")
