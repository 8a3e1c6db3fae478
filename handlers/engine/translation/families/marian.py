"""Marian, such as OPUS-MT: one target per model, or several with `>>fra<<` before each text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from contract.languages import LANGUAGES, find_tag
from handlers.engine.directories import (
    SETTINGS_FILE,
    ModelError,
    read_object,
    read_settings,
)
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.family import Family, Languages
from handlers.engine.translation.tokenizer import WORD_START, SentencePieceTokenizer

_SOURCE, _TARGET, _IDS = "source.spm", "target.spm", "vocab.json"
_CONTROL = re.compile(r"<pad>|</s>|<unk>|>>\w+<<")


class Marian(Family):
    """The Marian family: one SentencePiece model per side, with shared ids."""

    name = "marian"
    model_type = "marian"
    files = ((_SOURCE,), (_TARGET,), (_IDS,))
    codes_file = _IDS
    code = re.compile(r'">>(\w+)<<"')

    def list_languages(self, directory: Path) -> Languages:
        """The languages of the tokens, `tokenizer_config.json` or a name (`opus-mt-en-fr`)."""
        targets = tuple(self.read_codes(directory))
        return Languages(
            list_side(directory, "source"), targets or list_side(directory, "target")
        )

    def load_tokenizer(self, directory: Path) -> MarianTokenizer:
        config = self.read_config(directory)
        if config.get("share_encoder_decoder_embeddings") is False:
            raise ModelError(
                f"{directory}/config.json: share_encoder_decoder_embeddings is False, "
                "expected one vocabulary for both sides"
            )
        return MarianTokenizer(directory, self.read_codes(directory))


class MarianTokenizer(SentencePieceTokenizer):
    """The format `>>fra<< ▁piece … </s>`, or without the language."""

    def __init__(self, directory: Path, codes: Mapping[str, str]) -> None:
        ids = json.loads((directory / _IDS).read_text("utf-8"))
        control = set(filter(_CONTROL.fullmatch, ids))
        super().__init__(ids, control, directory / _SOURCE, directory / _TARGET)
        self._codes = codes

    def list_first(self, sentence: Sentence) -> list[str]:
        code = self._codes.get(sentence.target)
        return [f">>{code}<<"] if code else []

    def _join(self, rows: Sequence[Sequence[str]]) -> list[str]:
        # The target's model returns unknown pieces unchanged.
        return [text.replace(WORD_START, " ").strip() for text in super()._join(rows)]


def list_side(directory: Path, side: str) -> tuple[str, ...]:
    """List the languages of one side of a pair; `babelgate.json` has those of a group."""
    if listed := read_settings(directory).get(f"{side}s"):
        return tuple(listed)
    file = directory / "tokenizer_config.json"
    names = directory.name.split("-")[-2:]
    code = read_object(file).get(f"{side}_lang") or names[0 if side == "source" else -1]
    if code == "mul":
        return tuple(LANGUAGES)
    tags = [find_tag(code)] if find_tag(code) else map(find_tag, re.split("[+_]", code))
    known = tuple(tag for tag in tags if tag)
    if not known:
        raise ModelError(
            f"{file}: {side}_lang is {code!r}, which is not a language: list those that it "
            f"stands for in {SETTINGS_FILE}, under {side}s"
        )
    return known
