"""Builds models of real sizes with random weights: they answer nonsense at the real cost."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import torch
import transformers
import yaml
from safetensors.torch import save_file
from tokenizers import decoders, pre_tokenizers
from tokenizers.models import Unigram
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

from benchmarks.instruments.keeping import keep
from handlers.engine.directories import SETTINGS_FILE
from handlers.engine.translation.families.m2m100 import CODES
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.items import LANGUAGES

#: M2M100 appends its languages and eight unused rows to the vocabulary.
_UNUSED_ROWS = 8
#: NLLB-200, of the same class, has more.
_M2M100_ROWS = 128_112
#: The score of an invented piece: no text has it.
_RARE = -99.0
#: Uniform in ±0.035 spreads as the normal distribution that training starts from.
_SPREAD = 0.035
#: Random weights do not know when to end. A usual answer has this many tokens.
_ANSWER_TOKENS = 32
_PIECE_LETTERS = 4
_LISTED = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
#: Configurations of real checkpoints.
SIZES: Mapping[str, Mapping[str, Any]] = _LISTED["sizes"]


def find(cache: Path, name: str) -> Path:
    """The model of one of `SIZES` in `cache`, built if it is missing. Its answers end after 32
    tokens, it takes texts of as many, and no guard judges them."""

    def make(part: Path) -> None:
        config = make_config(**SIZES[name])
        build(part, config)
        settings = {"max_tokens": _ANSWER_TOKENS, "guard": False}
        (part / SETTINGS_FILE).write_text(json.dumps(settings) + "\n")
        generation = transformers.GenerationConfig.from_model_config(config)
        generation.update(max_length=_ANSWER_TOKENS)
        generation.save_pretrained(part)

    return keep(cache / f"{name}-random-{_ANSWER_TOKENS}", make)


def make_config(config: str, **sizes: Any) -> transformers.PreTrainedConfig:
    """A configuration of Transformers by the name of its class."""
    made: transformers.PreTrainedConfig = getattr(transformers, config)(**sizes)
    return made


def find_classifier(cache: Path, side: int) -> Path:
    """An image classifier of ViT-B/16's size, for images of `side` pixels, built once."""

    def make(part: Path) -> None:
        torch.manual_seed(0)
        config = transformers.ViTConfig(image_size=side, num_labels=1000)
        transformers.ViTForImageClassification(config).save_pretrained(part)
        size = {"height": side, "width": side}
        transformers.ViTImageProcessorPil(size=size).save_pretrained(part)

    return keep(cache / f"vit-b16-{side}-random", make)


def build(directory: Path, config: transformers.PreTrainedConfig) -> Path:
    """Writes a checkpoint with random weights in the layout of its family: M2M100's size takes
    1 GB on disk and 2.5 GB of memory."""
    with torch.device("meta"):
        model = transformers.AutoModelForSeq2SeqLM.from_config(config)
    config.architectures = [type(model).__name__]
    config.dtype = torch.float16
    directory.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(directory)
    if config.model_type == "marian":
        _write_marian(directory, config.vocab_size)
    elif config.model_type == "t5":
        codes = [f"<2{code}>" for code in LANGUAGES]
        _write_json(directory, ["<unk>", "<s>", "</s>", *codes], config.vocab_size)
    elif config.vocab_size > _M2M100_ROWS:
        codes = FAIRSEQ_LANGUAGE_CODES
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *codes]
        _write_json(directory, tokens, config.vocab_size - _UNUSED_ROWS)
    else:
        for name in ("sentencepiece.bpe.model", "tokenizer_config.json"):
            shutil.copy(phrasebook.MODEL / name, directory / name)
        ids = invent_vocabulary(config.vocab_size - len(CODES) - _UNUSED_ROWS)
        _write(directory / "vocab.json", ids)
    weights = _draw_weights(model.state_dict(), is_tied=config.tie_word_embeddings)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def _write_marian(directory: Path, size: int) -> None:
    pair = phrasebook.MODEL.with_name("phrasebook-en-fr")
    for name in ("source.spm", "target.spm", "tokenizer_config.json"):
        shutil.copy(pair / name, directory / name)
    ids = json.loads((pair / "vocab.json").read_text("utf-8"))
    del ids["<pad>"]
    _write(directory / "vocab.json", _add_pieces(ids, size - 1) | {"<pad>": size - 1})


def _write_json(directory: Path, control: Sequence[str], size: int) -> None:
    """Writes the tokenizer of the phrasebook's pieces, and invented ones up to `size`."""
    file = phrasebook.MODEL / "sentencepiece.bpe.model"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
    scores = {pieces.id_to_piece(i): pieces.get_score(i) for i in range(len(pieces))}
    ids = {token: i for i, token in enumerate(dict.fromkeys([*control, *scores]))}
    tokens = [(token, scores.get(token, _RARE)) for token in _add_pieces(ids, size)]
    made = tokenizers.Tokenizer(Unigram(tokens, unk_id=control.index("<unk>")))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.add_special_tokens([*control])
    made.save(str(directory / "tokenizer.json"))


def invent_vocabulary(size: int) -> dict[str, int]:
    """Ids by piece: the phrasebook's, and invented pieces in many scripts up to `size`.

    About half of the invented ones are Latin, 13 % Cyrillic, 15 % Chinese, Japanese or
    Korean, 6 % Arabic, 9 % Indic, 7 % others. These shares are estimates.
    """
    ids: dict[str, int] = json.loads(
        (phrasebook.MODEL / "vocab.json").read_text("utf-8")
    )
    return _add_pieces(ids, size)


def _add_pieces(ids: dict[str, int], size: int) -> dict[str, int]:
    invented = (piece for piece in _invent_pieces() if piece not in ids)
    return ids | dict(zip(invented, range(len(ids), size), strict=False))


def _invent_pieces() -> Iterator[str]:
    """Different words, a hundred at a time with the scripts' shares."""
    turns = []
    for first, last, percent in _LISTED["alphabets"]:
        letters = map(chr, range(ord(first), ord(last) + 1))
        # One iterator many times, so that its words go on.
        turns += [itertools.product(letters, repeat=_PIECE_LETTERS)] * percent
    for words in itertools.cycle(turns):
        yield "▁" + "".join(next(words))


def _draw_weights(
    shapes: Mapping[str, torch.Tensor], *, is_tied: bool
) -> dict[str, torch.Tensor]:
    """Random matrices, neutral biases and norms; nothing is initialised twice."""
    # The outputs have the weights of the embedding, too; positions follow from their sizes.
    outputs = ("lm_head.weight",) if is_tied else ()
    shared = ("embed_tokens.weight", "embed_positions.weight", *outputs)
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for name, shaped in shapes.items():
        if name.endswith(shared):
            continue
        weight = weights[name] = torch.empty(shaped.shape, dtype=torch.float16)
        if name.endswith("bias"):
            weight.zero_()
        elif len(shaped.shape) == 1:
            weight.fill_(1.0)
        else:
            weight.uniform_(-_SPREAD, _SPREAD, generator=generator)
    return weights


def _write(path: Path, ids: Mapping[str, int]) -> None:
    path.write_text(json.dumps(ids, ensure_ascii=False), "utf-8")
