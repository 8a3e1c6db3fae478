"""Trains a small Marian for one direction of the phrasebook, like a checkpoint of OPUS-MT: a
SentencePiece model per side, one vocabulary for both, and sinusoidal positions.
"""

import json
import random
from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from handlers.engine.translation.families.m2m100 import IDS_FILE
from handlers.engine.translation.families.marian import MarianTokenizer
from handlers.engine.translation.tokenizer import EOS
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.items import clean
from models.phrasebook_recipe.training import PhrasebookTrainer, learn_pieces, write_ids
from models.training import Minutes

_PIECES, _LINES = 1000, 60_000
#: The included model that defines the sizes of all.
_SHIPPED = phrasebook.MODEL.with_name("phrasebook-en-fr")
_SIDES = ("source.spm", "target.spm")
_SETTINGS = "tokenizer_config.json"


def train(
    source: Annotated[str, typer.Argument(help="The language of the texts.")],
    target: Annotated[str, typer.Argument(help="The language of the translations.")],
    minutes: Minutes = 20,
) -> None:
    """Train a small Marian for one direction, such as `models/phrasebook-en-fr`, or continue
    the last training in `run/`."""
    name = f"phrasebook-{source}-{target}"
    work = Path("run", name)
    out = phrasebook.MODEL.with_name(name)
    corpus = Corpus(phrasebook.load(), (source,), (target,))
    if not (work / IDS_FILE).exists():
        train_tokenizer(corpus, work)
    vocabulary = PairVocabulary(work, source)
    trainer = PhrasebookTrainer(corpus, vocabulary, work, minutes=minutes, rate=3e-3)
    trainer.run(print)
    trainer.export(out, *(work / name for name in (*_SIDES, IDS_FILE)))
    settings = json.loads((_SHIPPED / _SETTINGS).read_text())
    settings |= {"source_lang": source, "target_lang": target}
    (out / _SETTINGS).write_text(json.dumps(settings, indent=2) + "\n")


class PairVocabulary:
    """The token ids of Marian: end, unknown, pieces, and padding, which starts translations."""

    eos, unk = 0, 1

    def __init__(self, folder: Path, source: str) -> None:
        self._tokenizer = MarianTokenizer(folder, {})
        self._source = source
        self.ids = self._tokenizer.ids
        self.pad = self.start = self.ids["<pad>"]

    def encode(self, text: str, language: str) -> list[int]:
        """Return `pieces [eos]`, the form of both encoder input and labels."""
        if language == self._source:
            tokens = self._tokenizer.encode(clean(text), language)
        else:
            tokens = [*self._tokenizer.split_answer(clean(text)), EOS]
        return [self.ids.get(token, self.unk) for token in tokens]

    def make_model(self) -> MarianMTModel:
        """Create an untrained model. Its translations start with a zero vector instead of a
        token's, so training leaves the row of the padding at zero."""
        config = MarianConfig.from_pretrained(
            _SHIPPED,
            vocab_size=len(self.ids),
            decoder_vocab_size=len(self.ids),
            pad_token_id=self.pad,
            decoder_start_token_id=self.start,
        )
        model = MarianMTModel(config)
        model.generation_config.bad_words_ids = [[self.pad]]

        def spare_padding(gradient: Tensor) -> Tensor:
            gradient[self.pad] = 0
            return gradient

        model.lm_head.weight.register_hook(spare_padding)
        return model


def train_tokenizer(corpus: Corpus, folder: Path) -> None:
    """Write the pieces of both sides and the ids of all tokens into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    for name, side in zip(_SIDES, ("source", "target"), strict=True):
        rng = random.Random(0)
        texts = (getattr(corpus.draw(rng), side) for _ in range(_LINES))
        found += learn_pieces(texts, folder / name, _PIECES)
    pieces = (piece for piece in found if piece != "<s>")
    write_ids(folder, ["</s>", "<unk>", *pieces, "<pad>"])
