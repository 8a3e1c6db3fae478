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
    """Models with one convention for languages. It has no state and needs no model library
    before it loads a tokenizer."""

    name: str
    #: `model_type` in `config.json`.
    model_type: str
    #: The file that lists the languages, and one of them as it stands there.
    codes_file = TOKENIZER_FILE
    code: re.Pattern[str]
    #: The files beside weights and configuration: a directory must hold one of each group.
    files: tuple[tuple[str, ...], ...] = ((TOKENIZER_FILE,),)
    #: Makes the tokenizer of a directory, with the codes of its languages by our tag.
    tokenizer: Callable[[Path, Mapping[str, str]], Tokenizer]

    def suits(self, directory: Path) -> bool:
        """Whether a directory of this `model_type` holds one of the family."""
        return True

    def read_codes(self, directory: Path) -> dict[str, str]:
        """The model's code of each language that it has a token for, by our tag. Where several
        mean one, simplified Chinese wins, then the earlier code."""
        text = (directory / self.codes_file).read_text("utf-8")
        found: dict[str, str] = {}
        for code in self.code.findall(text):
            tag = find_tag(code)
            if tag and (tag not in found or "Hans" in code):
                found[tag] = code
        return found

    def list_languages(self, directory: Path) -> Languages:
        """The languages that the model's files name. Raises ModelError if they do not."""
        tags = tuple(self.read_codes(directory))
        if not tags:
            raise ModelError(f"{directory / self.codes_file} lists no language")
        return Languages(tags, tags)

    def load_tokenizer(self, directory: Path) -> Tokenizer:
        """The tokenizer of a directory, converted or not. Raises ModelError."""
        return self.tokenizer(directory, self.read_codes(directory))

    def read_max_tokens(self, directory: Path) -> int:
        """The most tokens of a text, as `config.json` says."""
        limit: int = self.read_config(directory)["max_position_embeddings"]
        return limit

    def read_config(self, directory: Path) -> dict[str, Any]:
        return read_object(directory / "config.json")
