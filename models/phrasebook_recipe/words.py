"""Makes `text/words.txt`, the words by which the gateway identifies short texts, and keeps one
meaning in six out of it, on which a test measures that.
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
#: A vowel sign of Hindi is a mark.
WORD = regex.compile(r"[\p{L}\p{M}]+")


def write_words() -> str:
    """A line for each language: its code, and its words in order."""
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
    """The wordings of the meanings that are held out, or of the others."""
    for wordings in _list_meanings():
        digest = hashlib.sha256(fold(wordings["en"][0]).encode()).digest()
        if (digest[0] % _HELD_OUT_SHARE == 0) is is_held_out:
            for language, texts in wordings.items():
                yield from ((language, text) for text in texts)


def fold(text: str) -> str:
    """The text as it is compared: no capitals, and no marks around it."""
    return items.clean(text).lower().strip(" .!?¡¿,。！？।؟،…")
