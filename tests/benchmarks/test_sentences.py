"""The sentences of the benchmarks: the same in every run, and as long as was asked for."""

from __future__ import annotations

import json

from benchmarks.sentences import draw, draw_mixed, write_body, write_document
from handlers.engine.m2m100 import Sentence


def test_every_run_has_the_same_sentences():
    assert draw(50) == draw(50)
    assert draw(50) != draw(50, seed=1)
    assert draw_mixed(50, ["fr"]) == draw_mixed(50, ["fr"])


def test_no_two_sentences_are_alike():
    assert len(set(draw(300))) == 300


def test_only_wanted_languages_are_translated_into():
    assert {s.target for s in draw(60, ["fr", "de"])} == {"fr", "de"}
    assert {s.target for s in draw_mixed(60, ["ko"])} == {"ko"}


def test_no_sentence_holds_a_mask():
    assert not [s for s in draw(500) if "{" in s.text]


def test_mixed_texts_differ_much_in_length():
    lengths = sorted(len(s.text) for s in draw_mixed(400, ["en"]))
    assert lengths[-20] > 5 * lengths[len(lengths) // 2 - 100]


def test_a_document_is_as_large_as_was_asked_for():
    document = write_document("en", 20_000)
    size = len(document.encode())
    assert 20_000 <= size < 20_500
    assert document == write_document("en", 20_000)


def test_a_body_is_what_the_api_takes():
    body = write_body(Sentence("안녕", "ko", "en"))
    assert json.loads(body) == {"src_lang": "ko", "src_text": "안녕", "tgt_lang": "en"}
    assert "안녕".encode() in body
