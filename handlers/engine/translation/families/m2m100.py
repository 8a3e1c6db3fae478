"""M2M100: 100 languages, `__fr__` in front of both texts."""

from __future__ import annotations

import json
import re
from pathlib import Path

from handlers.engine.directories import ModelError, read_object
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.family import Family
from handlers.engine.translation.tokenizer import SentencePieceTokenizer

#: The languages, by our own tags, in the order of their ids, which follow those of the pieces.
CODES = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga
    gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt
    lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr
    ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
""".split()
PIECES_FILE, IDS_FILE = "sentencepiece.bpe.model", "vocab.json"
#: The files in which a tokenizer lists its languages.
_TOKEN_FILES = ("tokenizer_config.json", "special_tokens_map.json")
_CONTROL = re.compile(r"<.*>", re.DOTALL)


class M2M100(Family):
    """The M2M100 family, with Fairseq's vocabulary: pieces, ordered languages, unused rows."""

    name = "m2m100"
    model_type = "m2m_100"
    files = ((PIECES_FILE,), (IDS_FILE,))
    code = re.compile('"__([a-z]{2,3})__"')

    def read_codes(self, directory: Path) -> dict[str, str]:
        """The codes for which the tokenizer lists a token, or all if it lists none."""
        _check_order(directory / _TOKEN_FILES[0])
        files = [file for name in _TOKEN_FILES if (file := directory / name).is_file()]
        tokens = {c for f in files for c in self.code.findall(f.read_text("utf-8"))}
        known = [code for code in CODES if code in tokens] or CODES
        return dict(zip(known, known, strict=True))

    def load_tokenizer(self, directory: Path) -> M2M100Tokenizer:
        _check_order(directory / _TOKEN_FILES[0])
        return M2M100Tokenizer(directory)


class M2M100Tokenizer(SentencePieceTokenizer):
    """The format `__en__ ▁piece … </s>`, with the target's token in front of the answer."""

    def __init__(self, directory: Path) -> None:
        ids = json.loads((directory / IDS_FILE).read_text("utf-8"))
        languages = [f"__{code}__" for code in CODES]
        control = {*filter(_CONTROL.fullmatch, ids), *languages}
        ids |= {token: len(ids) + i for i, token in enumerate(languages)}
        super().__init__(ids, control, directory / PIECES_FILE)

    def list_first(self, sentence: Sentence) -> list[str]:
        return [f"__{sentence.source}__"]

    def list_prefix(self, sentence: Sentence) -> list[str]:
        return [f"__{sentence.target}__"]


def _check_order(file: Path) -> None:
    """Raise ModelError if the language tokens have another order than M2M100's, because the
    model would answer without an error."""
    key, expected = "language_codes", "m2m100"
    codes = read_object(file).get(key, expected)
    if codes != expected:
        raise ModelError(f"{file}: {key} is {codes!r}, expected {expected!r}")
