"""The requests of benchmarks: the same in every run, in the form of each task."""

import pytest

from benchmarks.instruments.workload import draw, draw_requests
from contract.tasks import CAPTIONING, CLASSIFICATION, PATHS, TRANSLATION
from handlers.engine.translation.families.m2m100 import M2M100Tokenizer
from models.phrasebook_recipe import phrasebook


@pytest.mark.parametrize(
    ("task", "start"),
    [
        (CAPTIONING, b"\x93NUMPY"),
        (CLASSIFICATION, b"\xff\xd8\xff"),
        (TRANSLATION, b'{"src_lang"'),
    ],
)
def test_requests_of_a_task_are_alike_in_every_run(task: str, start: bytes):
    drawn = draw_requests(task, 5, targets=("fr",))
    assert drawn == draw_requests(task, 5, targets=("fr",))
    assert len({request.body for request in drawn}) == 5
    assert {request.path for request in drawn} <= {PATHS[task], "/"}
    assert all(request.body.startswith(start) for request in drawn)


def test_no_two_sentences_are_alike_none_holds_a_mask_and_all_are_into_the_languages():
    drawn = draw(300, ["fr", "de"])
    assert drawn[:50] == draw(50, ["fr", "de"])
    assert len(set(drawn)) == 300
    assert not any("{" in sentence.text for sentence in drawn)
    assert {sentence.target for sentence in drawn} == {"fr", "de"}


def test_texts_are_about_as_long_as_was_asked_for():
    encode = M2M100Tokenizer(phrasebook.MODEL).encode
    texts = draw(100, ["ko"], tokens=(20, 20))
    lengths = sorted(len(encode(text.text, text.source)) for text in texts)
    assert 17 <= lengths[1] <= lengths[-1] <= 23
    assert {text.target for text in texts} == {"ko"}
