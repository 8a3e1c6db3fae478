"""Tiny checkpoints of every family of translation models, with the same files as on the hub."""

import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import sentencepiece
import torch
import transformers
from transformers.convert_slow_tokenizer import generate_merges

from benchmarks.instruments import random_model
from handlers.engine.translation.families.m2m100 import M2M100Tokenizer
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus, TextPair

#: The languages whose texts the pieces are learnt from.
LANGUAGES = ("en", "fr", "de", "ru", "zh")
_NLLB_CODES = ["deu_Latn", "eng_Latn", "fra_Latn", "rus_Cyrl", "zho_Hans", "zho_Hant"]
#: The most tokens of a text, and the tokens of any translation: random models end no earlier.
POSITIONS = 32
_SIZES = {"d_model": 32, "max_position_embeddings": POSITIONS} | {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 64))
}


def build_m2m100(directory: Path, positions: int = POSITIONS) -> Path:
    """Build a facebook/m2m100_418M with the phrasebook's vocabulary and eight unused rows."""
    rows = len(M2M100Tokenizer(phrasebook.MODEL).ids) + 8
    sizes = {**_SIZES, "max_position_embeddings": positions}
    config = transformers.M2M100Config(vocab_size=rows, **sizes)
    return random_model.build(directory, config)


def build_nllb(directory: Path) -> Path:
    """Build a facebook/nllb-200-distilled-600M: fairseq's ids, languages, mask, unused rows."""
    model = train_pieces(LANGUAGES, kind="bpe")
    pieces = list_pieces(model)[3:]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    ids = {token: i for i, token in enumerate(tokens)}
    scores = {piece: -float(i) for i, piece in enumerate(pieces)}
    tokenizer = transformers.NllbTokenizer(
        vocab=ids,
        merges=generate_merges(ids, scores),
        extra_special_tokens=_NLLB_CODES,
        src_lang=_NLLB_CODES[0],
    )
    tokenizer.save_pretrained(directory)
    (directory / "sentencepiece.bpe.model").write_bytes(model)
    config = transformers.M2M100Config(vocab_size=len(tokenizer) + 2, **_SIZES)
    return _save(transformers.M2M100ForConditionalGeneration(config), directory)


def build_marian(
    directory: Path, target: str = "fr", codes: Sequence[str] = ()
) -> Path:
    """Build a Helsinki-NLP/opus-mt-en-fr, or with `codes` an opus-mt-en-ROMANCE."""
    directory.mkdir(parents=True, exist_ok=True)
    learnt = [train_pieces((language,)) for language in ("en", "fr")]
    for side, model in zip(("source", "target"), learnt, strict=True):
        (directory / f"{side}.spm").write_bytes(model)
    pieces = {piece for model in learnt for piece in list_pieces(model)[3:]}
    tokens = ["</s>", "<unk>", *(f">>{c}<<" for c in codes), *sorted(pieces), "<pad>"]
    ids = {token: i for i, token in enumerate(tokens)}
    _write(directory / "vocab.json", ids)
    languages = {"source_lang": "en", "target_lang": target}
    settings = languages | {"tokenizer_class": "MarianTokenizer"}
    _write(directory / "tokenizer_config.json", settings)
    pad = ids["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(ids),
        pad_token_id=pad,
        decoder_start_token_id=pad,
        activation_function="swish",
        scale_embedding=True,
        **_SIZES,
    )
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.normal_()
    model.generation_config.update(num_beams=6, bad_words_ids=[[pad]])
    _save(model, directory)
    (directory / "model.safetensors").unlink()
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    return directory


def build_madlad(directory: Path) -> Path:
    """Build a google/madlad400-3b-mt: an untied output layer, and a token to start."""
    tokens = [f"<2{code}>" for code in (*LANGUAGES, "zh_Hant")]
    model = train_pieces(LANGUAGES, symbols=tuple(tokens))
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocab = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))]
    tokenizer = transformers.T5Tokenizer(vocab=vocab, extra_ids=0, pad_token="<s>")
    tokenizer.save_pretrained(directory)
    (directory / "spiece.model").write_bytes(model)
    config = transformers.T5Config(
        vocab_size=len(vocab),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=0,
        n_positions=POSITIONS,
    )
    built = transformers.T5ForConditionalGeneration(config)
    built.lm_head.weight = torch.nn.Parameter(torch.randn(len(vocab), 32))
    return _save(built, directory)


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "m2m100": build_m2m100,
    "nllb": build_nllb,
    "marian": build_marian,
    "madlad": build_madlad,
}


@cache
def list_pairs() -> list[TextPair]:
    return Corpus(phrasebook.load()).finite()


@cache
def train_pieces(
    languages: tuple[str, ...], *, kind: str = "unigram", symbols: tuple[str, ...] = ()
) -> bytes:
    """Train a SentencePiece model on the phrasebook's texts."""
    model = io.BytesIO()
    texts = [p.source for p in list_pairs() if p.source_language in languages][:3000]
    texts += ["{0} {1}"] * 9  # or no piece has them
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type=kind,
        vocab_size=1500,
        hard_vocab_limit=False,
        character_coverage=1.0,
        user_defined_symbols=list(symbols),
        minloglevel=2,
    )
    return model.getvalue()


def list_pieces(model: bytes) -> list[str]:
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [pieces.id_to_piece(i) for i in range(len(pieces))]


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def _save(model: transformers.PreTrainedModel, directory: Path) -> Path:
    model.save_pretrained(directory)
    return directory
