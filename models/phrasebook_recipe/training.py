"""Trains the SentencePiece model that `M2M100Tokenizer` reads, then the model for a number of
minutes, resuming the last run, and exports both.
"""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import sentencepiece
import torch
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration
from typer import BadParameter

from handlers.engine.translation.batching import pack
from handlers.engine.translation.families.m2m100 import (
    IDS_FILE,
    PIECES_FILE,
    M2M100Tokenizer,
)
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES, clean
from models.phrasebook_recipe.phrasebook import MODEL
from models.training import Training, write_facts

if TYPE_CHECKING:
    from models.phrasebook_recipe.pair import PairVocabulary

Batch = tuple[torch.Tensor, torch.Tensor]

_PIECES = 16000
_CONTROL = ("<s>", "<pad>", "</s>", "<unk>")
#: M2M100 appends its languages and eight unused rows to the vocabulary.
_UNUSED_ROWS = 8
#: The share of the time, at the end, in which the learning rate falls.
_DECAY_SHARE = 0.3
#: The share of the time, at the end, in which the loss covers the whole vocabulary.
_EXACT_SHARE = 0.1
#: The number of pieces that the loss covers before that.
_CANDIDATES = 2048
_POOL = 4096
_BATCH_TOKENS, _WARMUP_STEPS, _SMOOTHING = 2048, 400, 0.1


class Vocabulary:
    """The token ids of M2M100: control tokens, pieces, 100 languages, unused rows."""

    pad, eos, unk = 1, 2, 3
    #: The token before the first one of a translation.
    start = eos

    def __init__(self, folder: Path) -> None:
        self._tokenizer = M2M100Tokenizer(folder)
        self.ids = self._tokenizer.ids
        self.size = len(self.ids) + _UNUSED_ROWS

    def encode(self, text: str, language: str) -> list[int]:
        """Return `[language] pieces [eos]`, the form of both encoder input and labels."""
        tokens = self._tokenizer.encode(clean(text), language)
        return [self.ids.get(token, self.unk) for token in tokens]

    def make_model(self) -> M2M100ForConditionalGeneration:
        config = M2M100Config.from_pretrained(MODEL, vocab_size=self.size)
        model = M2M100ForConditionalGeneration(config)
        model.generation_config = GenerationConfig.from_pretrained(MODEL)
        return model


def train_tokenizer(corpus: Corpus, folder: Path, lines: int = 150_000) -> None:
    """Learn pieces from `lines` drawn texts, and write the tokenizer files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    learned = learn_pieces(_draw_texts(corpus, lines), folder / PIECES_FILE, _PIECES)
    write_ids(folder, [*_CONTROL, *learned])


def write_ids(folder: Path, tokens: Iterable[str]) -> None:
    """Number tokens in order, and write the ids; a repeated token keeps its first id."""
    ids = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    (folder / IDS_FILE).write_text(json.dumps(ids, ensure_ascii=False), "utf-8")


def learn_pieces(texts: Iterator[str], path: Path, count: int) -> list[str]:
    """Write a SentencePiece model of at most `count` pieces, and return them."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts,
        model_writer=model,
        vocab_size=count,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        split_digits=True,
        minloglevel=1,
    )
    path.write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]


def _draw_texts(corpus: Corpus, lines: int) -> Iterator[str]:
    rng = random.Random(0)
    for pair in corpus.finite():
        yield pair.source
    for phrase in corpus.phrases:  # every value once, or its characters may be missing
        for item in phrase.all_items(rng, most=200):
            yield from (item.text(language) for language in LANGUAGES)
    for _ in range(lines):
        yield corpus.draw(rng).source
    alphabet = " ".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    yield from [alphabet] * len(LANGUAGES)


class PhrasebookTrainer(Training):
    """The training of a model on a corpus for a number of minutes."""

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary | PairVocabulary,
        folder: Path,
        *,
        minutes: float,
        rate: float = 1e-3,
    ) -> None:
        self.minutes, self.rate = minutes, rate
        self.corpus = corpus
        self.vocabulary = vocabulary
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        model = vocabulary.make_model().to(self.device)
        # For short sentences on a CPU, PyTorch's fused attention is slower.
        model.set_attn_implementation("eager")
        super().__init__(model, folder, lr=rate, weight_decay=0.01, fused=True)
        self.batches = self.draw_batches(random.Random(self.step))

    @property
    def done(self) -> float:
        return self.spent_s / 60 / self.minutes if self.minutes else 1.0

    def measure_loss(self) -> torch.Tensor:
        source, labels = (part.to(self.device) for part in next(self.batches))
        decoder_input = labels.roll(1, dims=1)
        decoder_input[:, 0] = self.vocabulary.start
        with torch.autocast(self.device.type, torch.bfloat16):
            states = self.model.model(
                input_ids=source,
                attention_mask=(source != self.vocabulary.pad).long(),
                decoder_input_ids=decoder_input,
            ).last_hidden_state
            is_piece = labels != self.vocabulary.pad
            return self.compare(
                states[is_piece],
                labels[is_piece],
                is_exact=self.done > 1 - _EXACT_SHARE,
            )

    def find_rate(self) -> float:
        """Warm up, stay constant, then fall linearly to zero. Rare items are learnt only while
        the rate is high, and all become exact in the last part."""
        warmup = min(1.0, (self.step + 1) / _WARMUP_STEPS)
        return self.rate * min(warmup, (1 - self.done) / _DECAY_SHARE)

    def export(self, folder: Path, *files: Path) -> None:
        """Write float16 weights, configuration, generation defaults, copies of the tokenizer's
        files, and the facts of the training. Raises BadParameter if nothing is learnt."""
        if self.step == 0:
            raise BadParameter(f"there is no checkpoint {self.checkpoint} to export")
        self.model.half().save_pretrained(folder)
        for file in files:
            (folder / file.name).write_bytes(file.read_bytes())
        write_facts(folder, minutes=self.spent_s / 60, steps=self.step)

    def compare(
        self, states: torch.Tensor, labels: torch.Tensor, *, is_exact: bool
    ) -> torch.Tensor:
        """Return the cross-entropy of `states` (pieces, width) against `labels` (pieces), over
        the whole vocabulary or a sample: the batch's own pieces and a random part of the
        others, each weighted to represent many (Jean et al. 2015, arXiv:1412.2007). The sample
        avoids nearly all of the output layer, which costs more than the six others."""
        weight = self.model.lm_head.weight
        if is_exact:
            logits = linear(states, weight).float()
        else:
            present, places = labels.unique(return_inverse=True)
            is_absent = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
            is_absent[present] = False
            absent = is_absent.nonzero().flatten()
            count = max(1, _CANDIDATES - len(present))
            others = absent[torch.randperm(len(absent), device=weight.device)[:count]]
            logits = linear(states, weight[torch.cat([present, others])]).float()
            logits[:, len(present) :] += math.log(len(absent) / len(others))
            labels = places
        return cross_entropy(logits, labels, label_smoothing=_SMOOTHING)

    def draw_batches(self, rng: random.Random) -> Iterator[Batch]:
        while True:
            rows = [self._encode(self.corpus.draw(rng)) for _ in range(_POOL)]
            rows.sort(key=lambda row: len(row[0]))
            lengths = [len(target) for _, target in rows]
            batches = pack(lengths, max_tokens=_BATCH_TOKENS)
            rng.shuffle(batches)
            for batch in batches:
                sources, targets = zip(*(rows[place] for place in batch), strict=True)
                yield self._pad(sources), self._pad(targets)

    def _encode(self, pair: TextPair) -> tuple[list[int], list[int]]:
        return (
            self.vocabulary.encode(pair.source, pair.source_language),
            self.vocabulary.encode(pair.target, pair.target_language),
        )

    def _pad(self, rows: Sequence[list[int]]) -> torch.Tensor:
        tensors = list(map(torch.tensor, rows))
        padding = self.vocabulary.pad
        return pad_sequence(tensors, batch_first=True, padding_value=padding)
