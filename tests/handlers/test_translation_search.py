"""What a row may ask of the search, and what its client is told when it fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from handlers.engine.translation.guard import Fault
from handlers.translation import TranslationHandler
from tests.handlers.fakes import FakeEngine, ask, ask_one, body

Start = Callable[..., TranslationHandler]

LOOP = "개 " * 8


def test_a_row_chooses_its_beam(handler: TranslationHandler, engine: FakeEngine):
    answers = ask(handler, [body("A", beam_size=8), body("B"), body("C", beam_size=1)])
    assert [a.content["translated"] for a in answers] == ["[ko] A", "[ko] B", "[ko] C"]
    assert [decoding.beams for decoding in engine.decodings] == [8, 2, 1]


def test_alternatives_come_with_their_scores(handler: TranslationHandler):
    assert ask_one(handler, body(alternatives=2)).content == {
        "translated": "[ko] Hello",
        "score": -0.1,
        "alternatives": [
            {"text": "[ko] Hello 0", "score": -1.0},
            {"text": "[ko] Hello 1", "score": -2.0},
        ],
    }


def test_alternatives_come_only_where_they_were_wanted(handler: TranslationHandler):
    answers = ask(handler, [body(), body(alternatives=0), body(alternatives=1)])
    assert ["alternatives" in a.content for a in answers] == [False, False, True]


def test_the_map_limits_what_a_row_may_ask_for(start: Start, engine: FakeEngine):
    handler = start(options={"max_beam_size": 1, "max_alternatives": 0})
    bodies = [body(), body(beam_size=1), body(beam_size=2), body(alternatives=1)]
    answers = ask(handler, bodies)
    assert [answer.status for answer in answers] == [200, 200, 422, 422]
    assert engine.decodings[-1].beams == 1


def test_the_map_limits_the_tokens_of_a_pack(start: Start, engine: FakeEngine):
    handler = start(options={"max_batch_tokens": 6})
    engine.batches.clear()
    ask(handler, [body("A"), body("B"), body("C")])
    assert engine.batches == [["A", "B"], ["C"]]


@pytest.mark.parametrize(
    ("said", "says"),
    [(LOOP, "repeats itself"), ("", "is empty"), ("ein nettes kleines Wort", "script")],
)
def test_an_answer_that_stays_faulty_carries_a_warning(
    handler: TranslationHandler, engine: FakeEngine, said: str, says: str
):
    engine.says = engine.says_carefully = {"Hello": said}
    content = ask_one(handler, body()).content
    assert content["translated"] == said
    (warning,) = content["warnings"]
    assert warning.startswith("The translation may be wrong: ")
    assert says in warning


def test_a_faulty_answer_may_be_doubtful_as_well(
    handler: TranslationHandler, engine: FakeEngine
):
    engine.says = engine.says_carefully = {"Hello": LOOP}
    engine.scores = {"Hello": -2.0}
    warnings = ask_one(handler, body()).content["warnings"]
    assert warnings == [Fault.LOOP.value, "This is a demonstration."]


def test_a_row_that_does_not_fit_into_memory_is_503_and_alone(
    handler: TranslationHandler, engine: FakeEngine
):
    engine.memory = 4
    bodies = [body("A"), body("B b b b b"), body("C")]
    answers = ask(handler, bodies)
    assert [answer.status for answer in answers] == [200, 503, 200]
    assert answers[1].content["type"] == "urn:babelgate:out-of-memory"
    assert "even alone" in answers[1].content["detail"]


def test_a_model_that_does_not_fit_into_memory_does_not_become_ready(
    start: Start, engine: FakeEngine
):
    engine.memory = 0
    with pytest.raises(RuntimeError, match="memory"):
        start()
