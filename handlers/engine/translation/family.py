"""The interface of a family of models: files, languages, tokenizer and limits."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contract.languages import find_tag
from handlers.engine.directories import ModelError, read_object
from handlers.engine.translation.tokenizer import TOKENIZER_FILE, Tokenizer


class Languages(NamedTuple):
    """The languages that a model reads and those that it writes, as BCP 47 tags."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]


class Family:
    """Models that specify languages in the same way. A family has no state, and imports a model
    library only to load a tokenizer."""

    name: str
    #: `model_type` in `config.json`.
    model_type: str
    #: The file that lists the languages, and the pattern of a language in it.
    codes_file = TOKENIZER_FILE
    code: re.Pattern[str]
    #: Files besides weights and configuration: a directory needs one of each group.
    files: tuple[tuple[str, ...], ...] = ((TOKENIZER_FILE,),)
    #: Loads the tokenizer of a directory, given its language codes by our tags.
    tokenizer: Callable[[Path, Mapping[str, str]], Tokenizer]

    def suits(self, directory: Path) -> bool:
        """Whether a directory of this `model_type` contains a model of this family."""
        return True

    def read_codes(self, directory: Path) -> dict[str, str]:
        """Return the model's code of each language that has a token, by our tag. If several
        share a tag, simplified Chinese wins, then the earlier code."""
        text = (directory / self.codes_file).read_text("utf-8")
        found: dict[str, str] = {}
        for code in self.code.findall(text):
            tag = find_tag(code)
            if tag and (tag not in found or "Hans" in code):
                found[tag] = code
        return found

    def list_languages(self, directory: Path) -> Languages:
        """List the languages that the model's files name. Raises ModelError if none do."""
        tags = tuple(self.read_codes(directory))
        if not tags:
            raise ModelError(f"{directory / self.codes_file} lists no language")
        return Languages(tags, tags)

    def load_tokenizer(self, directory: Path) -> Tokenizer:
        """The tokenizer of a directory, converted or not. Raises ModelError."""
        return self.tokenizer(directory, self.read_codes(directory))

    def read_max_tokens(self, directory: Path) -> int:
        """The most tokens that a text may have, from `config.json`."""
        limit: int = self.read_config(directory)["max_position_embeddings"]
        return limit

    def read_config(self, directory: Path) -> dict[str, Any]:
        return read_object(directory / "config.json")
