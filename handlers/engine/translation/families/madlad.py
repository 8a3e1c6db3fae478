"""MADLAD-400: a T5 with more than 400 languages, `<2fr>` in front of the text."""

import re
from collections.abc import Mapping
from pathlib import Path

import regex

from handlers.engine.directories import read_object
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.family import Family
from handlers.engine.translation.tokenizer import JsonTokenizer

_CONTROL = regex.compile(r"<(?:s|pad|/s|unk|2\w+|extra_id_\d+)>")
#: For models without a limit in their files. Positions are relative, so any length runs, but
#: answers to texts longer than those in training are wrong.
_MAX_TOKENS = 512
#: Tokenizers without a limit have a larger number in its place.
_MOST_TOKENS = 100_000


class MadladTokenizer(JsonTokenizer):
    """The format `<2fr> ▁piece … </s>`."""

    def __init__(self, directory: Path, codes: Mapping[str, str]) -> None:
        super().__init__(directory, _CONTROL)
        #: Language tokens as the tokenizer splits them: some have a piece for the space before.
        self._first = {
            tag: self._library.encode(f"<2{code}>", add_special_tokens=False).tokens
            for tag, code in codes.items()
        }
        self._library.encode_special_tokens = True

    def list_first(self, sentence: Sentence) -> list[str]:
        return self._first[sentence.target]


class Madlad(Family):
    """The MADLAD-400 family: a token for the target precedes the text; the source has none."""

    name = "madlad"
    model_type = "t5"
    code = re.compile(r'"<2(\w+)>"')
    tokenizer = MadladTokenizer

    def read_max_tokens(self, directory: Path) -> int:
        """The tokenizer's limit, else the configuration's, else 512."""
        told = read_object(directory / "tokenizer_config.json")
        config = self.read_config(directory)
        for limit in (told.get("model_max_length"), config.get("n_positions")):
            if isinstance(limit, int) and 0 < limit <= _MOST_TOKENS:
                return limit
        return _MAX_TOKENS
