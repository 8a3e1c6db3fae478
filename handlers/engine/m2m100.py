"""What every M2M100 engine shares: the values that go in and come out, the files of a
model directory, and the tokenizer.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import sentencepiece

TOKENIZER_FILES = ("sentencepiece.bpe.model", "vocab.json")
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
#: Ours, beside the model's own files: the `languages` it knows where they are not all of
#: M2M100's, and for a model of a small domain the `min_score` under which its answers
#: carry `warning`.
SETTINGS_FILE = "babelgate.json"

#: An answer may be this many times as long as the longest text of its batch, plus some:
#: a few Chinese tokens become many Hindi ones, but nothing runs on for ever.
_LENGTH_RATIO = 3
_LENGTH_MARGIN = 16

#: The languages of M2M100, in the order of their ids.
LANGUAGES = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga
    gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt
    lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr
    ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
""".split()

EOS = "</s>"
UNKNOWN = "<unk>"


class ModelError(ValueError):
    """A model directory that cannot be served; the message says what is missing."""


@dataclass(frozen=True)
class Sentence:
    """A text to translate and its direction, in ISO 639-1 codes."""

    text: str
    source: str
    target: str


@dataclass(frozen=True)
class Translation:
    """A translated text and its mean log-probability per token (0 is certain)."""

    text: str
    score: float


class Engine(Protocol):
    """Translates a batch; source and target are each row's own."""

    tokenizer: Tokenizer
    max_tokens: int

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """One translation per sentence, in order."""


def language_token(language: str) -> str:
    """The token by which M2M100 names a language."""
    return f"__{language}__"


def longest_answer(tokens: int, limit: int) -> int:
    """How long the answer to a text of so many tokens may become, in tokens, for a model
    that knows `limit` positions."""
    return min(limit, _LENGTH_RATIO * tokens + _LENGTH_MARGIN)


def read_settings(directory: Path) -> dict[str, Any]:
    """The content of `babelgate.json`, empty where there is none."""
    path = directory / SETTINGS_FILE
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def missing_files(names: Collection[str]) -> list[str]:
    """What an M2M100 that has files of these names lacks."""
    missing = [name for name in ("config.json", *TOKENIZER_FILES) if name not in names]
    if not any(name in names for name in WEIGHT_FILES):
        missing.append(" or ".join(WEIGHT_FILES))
    return missing


def check_directory(directory: Path) -> None:
    """Raises ModelError unless `directory` holds an M2M100 as Hugging Face lays it out."""
    if not directory.is_dir():
        raise ModelError(f"{directory} is not a directory")
    missing = missing_files(
        [path.name for path in directory.iterdir() if path.exists()]
    )
    if missing:
        raise ModelError(
            f"{directory} is not an M2M100 directory: it lacks {', '.join(missing)}"
        )
    try:
        config = json.loads((directory / "config.json").read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{directory}/config.json is not JSON: {error}") from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != "m2m_100":
        raise ModelError(
            f"{directory}/config.json: model_type is {kind!r}, expected 'm2m_100'"
        )


class Tokenizer:
    """Text to M2M100 tokens and back; without state, so rows may mix languages."""

    def __init__(self, directory: Path) -> None:
        #: The vocabulary: control tokens and pieces, in id order.
        self.ids: dict[str, int] = json.loads(
            (directory / "vocab.json").read_text("utf-8")
        )
        self._pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(directory / "sentencepiece.bpe.model")
        )

    def encode(self, text: str, language: str) -> list[str]:
        """`__en__ ▁piece … </s>`, the form that the encoder was trained on."""
        pieces = self._pieces.encode(unicodedata.normalize("NFC", text), out_type=str)
        return [language_token(language), *pieces, EOS]

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of the pieces; control and language tokens are dropped."""
        pieces = [
            token for token in tokens if token in self.ids and not _is_control(token)
        ]
        return str(self._pieces.decode(pieces))


def _is_control(token: str) -> bool:
    return token.startswith("<") and token.endswith(">")
