"""NLLB-200: M2M100's architecture, 202 FLORES-200 codes, `fra_Latn` in front of both texts."""

import re
from collections.abc import Mapping
from pathlib import Path

import regex

from handlers.engine.directories import read_object
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.family import Family
from handlers.engine.translation.tokenizer import JsonTokenizer

_CODE = "[a-z]{3}_[A-Z][a-z]{3}"
_CONTROL = regex.compile(rf"<(?:s|pad|/s|unk|mask)>|{_CODE}")


class NllbTokenizer(JsonTokenizer):
    """The format `eng_Latn ▁piece … </s>`, with the target's code in front of the answer."""

    def __init__(self, directory: Path, codes: Mapping[str, str]) -> None:
        super().__init__(directory, _CONTROL)
        self._library.encode_special_tokens = True
        self._codes = codes

    def list_first(self, sentence: Sentence) -> list[str]:
        return [self._codes[sentence.source]]

    def list_prefix(self, sentence: Sentence) -> list[str]:
        return [self._codes[sentence.target]]


class Nllb(Family):
    """The NLLB family, distinguished from M2M100 by the tokenizer's class. The oldest
    configurations put the source's code after the text; the models expect it in front."""

    name = "nllb"
    model_type = "m2m_100"
    code = re.compile(f'"({_CODE})"')
    tokenizer = NllbTokenizer

    def suits(self, directory: Path) -> bool:
        config = read_object(directory / "tokenizer_config.json")
        kind = str(config.get("tokenizer_class"))
        is_json = (directory / self.codes_file).exists()
        is_m2m100 = "M2M100" in kind or (directory / "vocab.json").exists()
        return "Nllb" in kind or (is_json and not is_m2m100)
