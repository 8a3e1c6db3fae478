"""The Marian model of one direction: its token ids, and the weights that training preserves."""

from pathlib import Path

import pytest
from transformers import MarianMTModel

from models.phrasebook_recipe import pair, training
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.pair import PairVocabulary
from models.phrasebook_recipe.training import PhrasebookTrainer

pytestmark = pytest.mark.slow


@pytest.fixture
def trainer(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PhrasebookTrainer:
    monkeypatch.setattr(pair, "_LINES", 2000)
    monkeypatch.setattr(training, "_POOL", 200)
    monkeypatch.setattr(training, "_BATCH_TOKENS", 128)
    monkeypatch.setattr(training, "_WARMUP_STEPS", 1)
    directed = Corpus(corpus.phrases, ("en",), ("fr",))
    pair.train_tokenizer(directed, tmp_path)
    vocabulary = PairVocabulary(tmp_path, "en")
    return PhrasebookTrainer(directed, vocabulary, tmp_path, minutes=1)


def test_each_side_has_pieces_of_its_own_and_one_numbering(trainer):
    numbers = trainer.vocabulary
    english = numbers.encode("Good morning", "en")
    french = numbers.encode("Merci", "fr")
    assert english[-1] == french[-1] == numbers.eos == numbers.ids["</s>"]
    assert numbers.encode("☃", "fr")[-2] == numbers.unk == numbers.ids["<unk>"]
    assert numbers.start == numbers.pad == len(numbers.ids) - 1


def test_a_translation_begins_with_zeros_after_training(trainer, tmp_path):
    before = trainer.model.lm_head.weight.clone()
    trainer.learn()
    trainer.export(tmp_path / "out")
    after = MarianMTModel.from_pretrained(tmp_path / "out").lm_head.weight.float()
    assert not after[trainer.vocabulary.pad].any()
    assert (after - before).abs().max() > 0


def test_only_the_wanted_direction_is_drawn(trainer):
    pairs = trainer.corpus.held_out(50)
    directions = {(one.source_language, one.target_language) for one in pairs}
    assert directions == {("en", "fr")}
