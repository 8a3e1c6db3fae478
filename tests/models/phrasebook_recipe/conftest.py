"""A phrasebook of a few phrases, whose wordings end with their language's code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.items import LANGUAGES

Entry = dict[str, Any]
Write = Callable[..., Path]


def say(text: str) -> Entry:
    """The same text in every language, marked with the language's code."""
    return {language: f"{text} {language}" for language in LANGUAGES}


#: Enough values for a slot that some fillings of a phrase are held out.
THINGS = [say(f"thing{number}") for number in range(40)]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes phrases: a domain `shop`, shared slots and sentences on words."""

    def write(phrases: list[Entry], *, things: list[Entry] = THINGS) -> Path:
        files = {
            "shop": {"slots": {"thing": things}, "phrases": phrases},
            "shared": {"slots": {"name": [say("Anna")]}},
            "words": {"phrases": [say("What is {word}?")]},
        }
        for name, content in files.items():
            text = yaml.safe_dump(content, allow_unicode=True)
            (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
        return tmp_path

    return write


@pytest.fixture
def corpus(write: Write) -> Corpus:
    """A phrase without a slot, one with the shop's slot, and one with CLDR's dates."""
    folder = write([say("Hello!"), say("I want {thing}."), say("Until {date}.")])
    return Corpus(phrasebook.load(folder))
