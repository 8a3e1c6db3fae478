"""The sentences of the benchmarks: the same in every run, and as long as was asked for."""

from __future__ import annotations

import json

from benchmarks.instruments.sentences import draw, write_document, write_request
from handlers.engine.translation.m2m100 import Sentence, Tokenizer
from models.phrasebook_recipe import phrasebook


def test_every_run_has_the_same_sentences():
    assert draw(50) == draw(50)
    assert draw(50) != draw(50, seed=1)
    assert draw(50, ["fr"], tokens=(3, 50)) == draw(50, ["fr"], tokens=(3, 50))


def test_no_two_sentences_are_alike():
    assert len(set(draw(300))) == 300


def test_only_wanted_languages_are_translated_into():
    assert {s.target for s in draw(60, ["fr", "de"])} == {"fr", "de"}
    assert {s.target for s in draw(60, ["ko"], tokens=(20, 20))} == {"ko"}


def test_no_sentence_holds_a_mask():
    assert not [s for s in draw(500) if "{" in s.text]


def count_tokens(least: int, most: int) -> list[int]:
    encode = Tokenizer(phrasebook.MODEL).encode
    texts = draw(400, tokens=(least, most))
    return sorted(len(encode(text.text, text.source)) for text in texts)


def test_texts_are_about_as_long_as_was_asked_for():
    lengths = count_tokens(20, 20)
    assert lengths[4] >= 17
    assert lengths[-4] <= 23


def test_texts_of_mixed_length_are_short_as_often_as_long():
    lengths = count_tokens(3, 200)
    assert lengths[0] <= 4
    assert 15 <= lengths[200] <= 40
    assert 150 <= lengths[-4] <= 220


def test_a_document_is_as_large_as_was_asked_for():
    document = write_document("en", 20_000)
    size = len(document.encode())
    assert 20_000 <= size < 20_500
    assert document == write_document("en", 20_000)


def test_a_body_is_what_the_api_takes():
    request = write_request(Sentence("안녕", "ko", "en"))
    assert json.loads(request.body) == {
        "src_lang": "ko",
        "src_text": "안녕",
        "tgt_lang": "en",
    }
    assert "안녕".encode() in request.body
    assert request.path == "/"
