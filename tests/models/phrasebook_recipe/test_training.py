"""The phrasebook's training: its tokenizer and loss, its export, and the state after a stop."""

import itertools
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, M2M100ForConditionalGeneration
from typer import BadParameter

from models.phrasebook_recipe import training
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.phrasebook import MODEL
from models.phrasebook_recipe.training import PhrasebookTrainer, Vocabulary

pytestmark = pytest.mark.slow

TOKENS = 128


@pytest.fixture
def trainer(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PhrasebookTrainer:
    monkeypatch.setattr(training, "_POOL", 200)
    monkeypatch.setattr(training, "_BATCH_TOKENS", TOKENS)
    monkeypatch.setattr(training, "_WARMUP_STEPS", 4)
    return PhrasebookTrainer(corpus, Vocabulary(MODEL), tmp_path, minutes=1)


def test_a_tokenizer_knows_every_character_of_its_corpus(corpus, tmp_path):
    corpus.names = {}
    training.train_tokenizer(corpus, tmp_path, lines=0)
    vocabulary = Vocabulary(tmp_path)
    for pair in corpus.finite():
        ids = vocabulary.encode(pair.source, pair.source_language)
        assert vocabulary.unk not in ids


def test_a_sample_of_the_vocabulary_gives_nearly_the_whole_loss(trainer):
    labels = torch.tensor([5, 700, 5, 9000])
    weight = trainer.model.lm_head.weight
    states = torch.randn(4, weight.shape[1])
    exact = trainer.compare(states, labels, is_exact=True)
    smoothing = training._SMOOTHING
    whole = cross_entropy(states @ weight.T, labels, label_smoothing=smoothing)
    assert exact.item() == pytest.approx(whole.item(), rel=1e-4)
    sampled = trainer.compare(states, labels, is_exact=False)
    assert sampled.item() == pytest.approx(exact.item(), rel=0.1)


def test_a_stopped_training_has_learnt_and_remembers_it(trainer, tmp_path):
    trainer.batches = itertools.repeat(next(trainer.batches))
    first, _, last = (trainer.learn() for _ in range(3))
    assert last < first
    trainer.spent_s = 60.0
    trainer.run(print)
    parts = trainer.corpus, trainer.vocabulary
    again = PhrasebookTrainer(*parts, tmp_path, minutes=1)
    assert (again.step, again.spent_s) == (3, 60.0)
    for name, expected in trainer.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], expected), name


def test_what_is_exported_has_the_weights(trainer: PhrasebookTrainer, tmp_path: Path):
    """Without a checkpoint, `train --minutes 0` leaves the model there is."""
    with pytest.raises(BadParameter, match="no checkpoint"):
        trainer.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    trainer.learn()
    trainer.export(tmp_path / "out")
    exported = M2M100ForConditionalGeneration.from_pretrained(tmp_path / "out")
    assert torch.equal(exported.lm_head.weight, trainer.model.lm_head.weight)


def test_the_vocabulary_numbers_tokens_as_the_model_does():
    vocabulary = Vocabulary(MODEL)
    first, *_, unknown, last = vocabulary.encode("Good morning ☃", "fr")
    assert (first, unknown) == (vocabulary.ids["__fr__"], vocabulary.unk)
    assert last == vocabulary.eos == vocabulary.ids["</s>"]
    assert vocabulary.ids["<pad>"] == vocabulary.pad
    assert vocabulary.size == AutoConfig.from_pretrained(MODEL).vocab_size
