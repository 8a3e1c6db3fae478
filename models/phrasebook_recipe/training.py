"""Trains the SentencePiece model that `M2M100Tokenizer` reads, and the model for a number of
minutes, resuming the last run, and exports both.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

from contract import durable
from contract.languages import LANGUAGES as M2M100_LANGUAGES
from handlers.engine.translation.m2m100 import language_token
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES, clean
from models.training import Training

Batch = tuple[torch.Tensor, torch.Tensor]
#: The tokens of a source and of its target.
_Row = tuple[list[int], list[int]]

_PIECES = 16000
_CONTROL = ("<s>", "<pad>", "</s>", "<unk>")
#: M2M100 appends its languages and eight unused rows to the vocabulary.
_UNUSED_ROWS = 8
_PIECES_FILE, _IDS_FILE = "sentencepiece.bpe.model", "vocab.json"

#: The last part of the time, in which the learning rate falls.
_DECAY_SHARE = 0.3
#: The last part of the time, in which the loss looks at the whole vocabulary.
_EXACT_SHARE = 0.1
#: Pieces that the loss looks at before.
_CANDIDATES = 2048
_POOL = 4096


class Vocabulary:
    """SentencePiece ids as M2M100 numbers them: control tokens, pieces, 100 languages."""

    pad, eos, unk = 1, 2, 3

    def __init__(self, folder: Path) -> None:
        self.pieces = _load_pieces(folder)
        self.ids: dict[str, int] = json.loads((folder / _IDS_FILE).read_text("utf-8"))
        self.languages = {
            lang: len(self.ids) + i for i, lang in enumerate(M2M100_LANGUAGES)
        }
        self.size = len(self.ids) + len(M2M100_LANGUAGES) + _UNUSED_ROWS

    def encode(self, text: str, language: str) -> list[int]:
        """`[language] pieces [eos]`, the form of both encoder input and labels."""
        pieces = self.pieces.encode(clean(text), out_type=str)
        return [
            self.languages[language],
            *(self.ids.get(p, self.unk) for p in pieces),
            self.eos,
        ]


def train_tokenizer(corpus: Corpus, folder: Path, lines: int = 150_000) -> None:
    """Writes the tokenizer files into `folder`; `lines` drawn texts decide the pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_draw_texts(corpus, lines),
        model_prefix=str(folder / "spm"),
        vocab_size=_PIECES,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        split_digits=True,
        minloglevel=1,
    )
    durable.rename(folder / "spm.model", folder / _PIECES_FILE)
    (folder / "spm.vocab").unlink()
    pieces = _load_pieces(folder)
    learned = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    ids = {token: i for i, token in enumerate(dict.fromkeys([*_CONTROL, *learned]))}
    (folder / _IDS_FILE).write_text(json.dumps(ids, ensure_ascii=False), "utf-8")
    # With all 100 language tokens in their original order Transformers decodes cleanly, and
    # CTranslate2's stock converter finds the ids.
    settings = {
        "tokenizer_class": "M2M100Tokenizer",
        "language_codes": "m2m100",
        "model_max_length": 128,
        "additional_special_tokens": list(map(language_token, M2M100_LANGUAGES)),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _load_pieces(folder: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / _PIECES_FILE))


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


@dataclass(frozen=True)
class PhrasebookRecipe:
    """The model to train, and for how long."""

    minutes: float = 60
    tokens_per_batch: int = 2048
    learning_rate: float = 1e-3
    warmup_steps: int = 400
    label_smoothing: float = 0.1
    seed: int = 0


def _make_config(vocabulary: Vocabulary) -> M2M100Config:
    """Three layers on each side, width 256."""
    return M2M100Config(
        vocab_size=vocabulary.size,
        d_model=256,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        # Nothing is seen often enough to be learnt by heart wrongly; dropout only costs time.
        dropout=0.0,
        attention_dropout=0.0,
        max_position_embeddings=256,
    )


class PhrasebookTrainer(Training):
    """A model, its optimiser and how long they have trained."""

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        recipe: PhrasebookRecipe,
        folder: Path,
    ) -> None:
        self.recipe = recipe
        self.corpus = corpus
        self.vocabulary = vocabulary
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(recipe.seed)
        model = M2M100ForConditionalGeneration(_make_config(vocabulary)).to(self.device)
        # For short sentences on a CPU PyTorch's fused attention is the slower one.
        model.set_attn_implementation("eager")
        options = {"lr": recipe.learning_rate, "weight_decay": 0.01, "fused": True}
        super().__init__(model, folder, **options)
        self.batches = self.draw_batches(random.Random(recipe.seed + self.step))

    @property
    def done(self) -> float:
        return self.spent_s / 60 / self.recipe.minutes if self.recipe.minutes else 1.0

    def measure_loss(self) -> torch.Tensor:
        source, labels = (part.to(self.device) for part in next(self.batches))
        decoder_input = labels.roll(1, dims=1)
        decoder_input[:, 0] = self.vocabulary.eos
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
        """Warm-up, constant, then linearly to zero. Rare things are learnt only while the
        rate is high, and everything becomes exact in the last part."""
        warmup = min(1.0, (self.step + 1) / self.recipe.warmup_steps)
        return self.recipe.learning_rate * min(warmup, (1 - self.done) / _DECAY_SHARE)

    def export(self, folder: Path) -> None:
        """Writes weights (float16), configuration, and generation defaults: beam 2
        without early stopping, which costs accuracy."""
        self.model.generation_config = GenerationConfig(
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
            num_beams=2,
            early_stopping=False,
            max_length=128,
        )
        self.model.half().save_pretrained(folder)

    def load_weights(self, folder: Path) -> None:
        """Starts from the weights of an exported model."""
        start = M2M100ForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32
        )
        self.model.load_state_dict(start.state_dict())

    def compare(
        self, states: torch.Tensor, labels: torch.Tensor, *, is_exact: bool
    ) -> torch.Tensor:
        """Cross-entropy of `states` (pieces, width) against `labels` (pieces), over the
        whole vocabulary or a sample: the batch's own pieces and a random part of the
        others, each of which stands for many (Jean et al. 2015, arXiv:1412.2007). The
        sample saves nearly all of the output layer, which costs more than the six others."""
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
        return cross_entropy(
            logits, labels, label_smoothing=self.recipe.label_smoothing
        )

    def draw_batches(self, rng: random.Random) -> Iterator[Batch]:
        while True:
            rows = [self._encode(self.corpus.draw(rng)) for _ in range(_POOL)]
            rows.sort(key=lambda row: (len(row[1]), len(row[0])))
            batches = list(self._pack(rows))
            rng.shuffle(batches)
            for batch in batches:
                sources, targets = zip(*batch, strict=True)
                yield self._pad(sources), self._pad(targets)

    def _encode(self, pair: TextPair) -> _Row:
        return (
            self.vocabulary.encode(pair.source, pair.source_language),
            self.vocabulary.encode(pair.target, pair.target_language),
        )

    def _pack(self, rows: list[_Row]) -> Iterator[list[_Row]]:
        batch: list[_Row] = []
        longest = 0
        for row in rows:
            longest = max(longest, len(row[1]))
            if longest * (len(batch) + 1) > self.recipe.tokens_per_batch:
                yield batch
                batch, longest = [], len(row[1])
            batch.append(row)
        yield batch

    def _pad(self, rows: Sequence[list[int]]) -> torch.Tensor:
        tensors, padding = list(map(torch.tensor, rows)), self.vocabulary.pad
        return pad_sequence(tensors, batch_first=True, padding_value=padding)
