"""The training texts, the held-out texts, and texts as people type them."""

import random

import pytest

from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import MIX, Corpus, vary
from models.phrasebook_recipe.items import LANGUAGES
from tests.models.phrasebook_recipe.conftest import Write, say


def draw_many(corpus: Corpus, count: int):
    rng = random.Random(5)
    return [corpus.draw(rng) for _ in range(count)]


def test_training_never_draws_what_is_held_out(corpus: Corpus):
    (phrase,) = (p for p in corpus.phrases if "thing" in p.slots)
    fillings = list(phrase.all_items(random.Random(0), most=40))
    held_out = {item.text("en") for item in fillings if item.is_held_out}
    trained = {item.text("en") for item in fillings} - held_out
    assert held_out
    drawn = {pair.target for pair in draw_many(corpus, 1500)}
    judged = {pair.target for pair in corpus.held_out(400)}
    assert drawn & held_out == set()
    assert judged & trained == set()
    assert drawn & trained
    assert judged & held_out
    assert corpus.held_out(30) == corpus.held_out(30) != corpus.held_out(30, seed=2)


def test_a_mix_of_every_kind_and_direction_is_drawn(corpus: Corpus):
    pairs = draw_many(corpus, 2000)
    categories = {pair.category for pair in pairs}
    assert categories >= {"phrases/shop", "phrases/words", "masks", "dates", "months"}
    assert sum(MIX["kinds"].values()) == pytest.approx(1)
    directions = {(pair.source_language, pair.target_language) for pair in pairs}
    assert len(directions) == len(LANGUAGES) * (len(LANGUAGES) - 1)


def test_nobody_is_asked_for_what_a_text_means_twice(write: Write):
    morning = say("Good morning.") | {"fr": "Hello! fr"}
    wanted = [say("Hello!"), morning, say("I want {thing}.")]
    corpus = Corpus(phrasebook.load(write(wanted)))
    drawn = draw_many(corpus, 1000)
    corpus.names = {}
    sources = {
        pair.source_language
        for pair in (*drawn, *corpus.finite())
        if pair.target == "Good morning. ko"
    }
    assert sources == set(LANGUAGES) - {"fr", "ko"}


def test_people_leave_out_marks_and_capitals():
    for typed in (
        ("¿Está Abierto?", "Está Abierto", "está Abierto", "está abierto"),
        ("Two Teas", "Two Teas.", "Two Teas!", "two Teas", "two teas"),
    ):
        assert {vary(typed[0], random.Random(seed)) for seed in range(200)} == {*typed}
