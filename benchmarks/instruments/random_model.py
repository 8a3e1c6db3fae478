"""Builds M2M100 models with random weights, which output nonsense at the real cost."""

import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
import yaml

from contract import durable
from handlers.engine.directories import SETTINGS_FILE
from handlers.engine.translation.families.m2m100 import CODES
from models.phrasebook_recipe import phrasebook

#: M2M100 appends its languages and eight unused rows to the vocabulary.
_UNUSED_ROWS = 8
#: Uniform in ±0.035 has the spread of the normal distribution from which training starts.
_SPREAD = 0.035
#: Random weights predict no end of an answer. A usual one has this many tokens.
_ANSWER_TOKENS = 32
_PIECE_LETTERS = 4
_ALPHABETS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
#: The name of M2M100-418M's size for commands.
SIZE = "418M"


def find_size(cache: Path) -> Path:
    """Return the directory of a model of M2M100-418M's size. It is built if it is missing, and
    appears complete or not at all."""
    path = cache / f"{SIZE}-random-{_ANSWER_TOKENS}"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _build_size(part := Path(folder) / path.name)
            durable.rename(part, path)
    return path


def _build_size(directory: Path) -> None:
    """Write the model. Its texts and answers are limited to 32 tokens, and its guard is off."""
    config = transformers.M2M100Config()
    build(directory, config)
    settings = {"max_tokens": _ANSWER_TOKENS, "guard": False}
    (directory / SETTINGS_FILE).write_text(json.dumps(settings) + "\n")
    generation = transformers.GenerationConfig.from_model_config(config)
    generation.update(max_length=_ANSWER_TOKENS)
    generation.save_pretrained(directory)


def build(directory: Path, config: transformers.PreTrainedConfig) -> Path:
    """Write a checkpoint with random weights: M2M100's size needs 1 GB on disk and 2 GB of
    memory. Biases and norms are neutral."""
    model = transformers.AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float16)
    torch.manual_seed(0)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.uniform_(weight, -_SPREAD, _SPREAD)
    model.save_pretrained(directory)
    for name in ("sentencepiece.bpe.model", "tokenizer_config.json"):
        shutil.copy(phrasebook.MODEL / name, directory / name)
    ids = invent_vocabulary(config.vocab_size - len(CODES) - _UNUSED_ROWS)
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), "utf-8")
    return directory


def invent_vocabulary(size: int) -> dict[str, int]:
    """Return ids by piece: the phrasebook's, and invented pieces in many scripts up to `size`.

    About half of the invented ones are Latin, 13 % Cyrillic, 15 % Chinese, Japanese or
    Korean, 6 % Arabic, 9 % Indic, 7 % others. These shares are estimates.
    """
    ids: dict[str, int] = json.loads(
        (phrasebook.MODEL / "vocab.json").read_text("utf-8")
    )
    invented = (piece for piece in _invent_pieces() if piece not in ids)
    return ids | dict(zip(invented, range(len(ids), size), strict=False))


def _invent_pieces() -> Iterator[str]:
    """Yield distinct words, each hundred of them with the scripts' shares."""
    turns = []
    for first, last, percent in _ALPHABETS:
        letters = map(chr, range(ord(first), ord(last) + 1))
        # One iterator many times, so that it does not repeat its words.
        turns += [itertools.product(letters, repeat=_PIECE_LETTERS)] * percent
    for words in itertools.cycle(turns):
        yield "▁" + "".join(next(words))
