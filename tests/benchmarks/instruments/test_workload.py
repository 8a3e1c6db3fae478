"""The requests of benchmarks: the same in every run, in the form of each task."""

from __future__ import annotations

import pytest

from benchmarks.instruments.workload import draw, draw_requests
from contract.tasks import CAPTIONING, CLASSIFICATION, DETECTION, PATHS, TRANSLATION
from handlers.engine.translation.m2m100 import Tokenizer
from models.phrasebook_recipe import phrasebook


@pytest.mark.parametrize(
    ("task", "start"),
    [
        (CAPTIONING, b"\x93NUMPY"),
        (CLASSIFICATION, b"\xff\xd8\xff"),
        (DETECTION, b"\xff\xd8\xff"),
        (TRANSLATION, b'{"src_lang"'),
    ],
)
def test_requests_of_a_task_are_alike_in_every_run(task: str, start: bytes):
    drawn = draw_requests(task, 5, targets=("fr",))
    assert drawn == draw_requests(task, 5, targets=("fr",))
    assert len({request.body for request in drawn}) == 5
    assert {request.path for request in drawn} <= {PATHS[task], "/"}
    assert all(request.body.startswith(start) for request in drawn)


def test_every_run_has_the_same_sentences():
    assert draw(50) == draw(50)
    assert draw(50) != draw(50, seed=1)
    assert draw(5, ["fr"], tokens=(3, 9)) == draw(5, ["fr"], tokens=(3, 9))


def test_no_two_sentences_are_alike_and_none_holds_a_mask():
    texts = [sentence.text for sentence in draw(300)]
    assert len(set(draw(300))) == 300
    assert not any("{" in text for text in texts)


def test_only_wanted_languages_are_translated_into():
    assert {s.target for s in draw(60, ["fr", "de"])} == {"fr", "de"}
    assert {s.target for s in draw(5, ["ko"], tokens=(3, 9))} == {"ko"}


def count_tokens(least: int, most: int) -> list[int]:
    encode = Tokenizer(phrasebook.MODEL).encode
    texts = draw(100, tokens=(least, most))
    return sorted(len(encode(text.text, text.source)) for text in texts)


def test_texts_are_about_as_long_as_was_asked_for():
    lengths = count_tokens(20, 20)
    assert lengths[1] >= 17
    assert lengths[-1] <= 23
