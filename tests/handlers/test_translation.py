"""The translation task on a fake engine: what a row must be and what its client gets."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from handlers import translation
from handlers.engine.translation.guard import Fault
from handlers.translation import TranslationHandler
from tests.handlers.fakes import FakeEngine, ask, ask_one, body, row

Start = Callable[..., TranslationHandler]

SECRET = "xylophone"
TOO_LONG = "word " * 9


def without(field: str) -> bytes:
    return json.dumps({k: v for k, v in row().items() if k != field}).encode()


def test_the_target_is_each_rows_own(handler: TranslationHandler, engine: FakeEngine):
    answers = ask(handler, [body(tgt_lang="no"), body(tgt_lang="ko")])
    said = [answer.content["translated"] for answer in answers]
    assert said == ["[no] Hello", "[ko] Hello"]
    assert len(engine.batches) == 1


def test_without_a_target_the_models_only_language_is_meant(start: Start):
    answer = ask_one(start(options={"languages": ["no"]}), without("tgt_lang"))
    assert answer.content["translated"] == "[no] Hello"


def test_unknown_fields_are_ignored(handler: TranslationHandler):
    assert ask_one(handler, body(model="x")).status == 200


@pytest.mark.parametrize("text", ["안녕하세요 🎈", "Ænd\u0300ring", 'a "b"\n\\', "نص"])
def test_an_answer_is_real_utf8(handler: TranslationHandler, text: str):
    answer = ask_one(handler, body(text))
    assert answer.content_type == "application/json; charset=utf-8"
    assert answer.content["translated"] == f"[ko] {text}"
    for character in text:
        assert character.isascii() or character.encode() in answer.body


MALFORMED: dict[str, tuple[Any, int, str]] = {
    "not JSON": (b"{", 400, "The body is not JSON."),
    "no body": (b"", 400, "The body is not JSON."),
    "a list": (b"[1]", 422, "expected a JSON object"),
    "null": (b"null", 422, "expected a JSON object"),
    "an empty object": ({}, 422, "src_lang: missing, expected a string"),
    "no text": (without("src_text"), 422, "expected a string"),
    "no source": (without("src_lang"), 422, "expected a string"),
    "text a list": (body(["Hello"]), 422, "expected a string"),
    "source a list": (body(src_lang=["en"]), 422, "expected a string"),
    "source unknown": (body(src_lang="tlh"), 422, "src_lang: 'tlh' is not served"),
    "source by region": (body(src_lang="en-US"), 422, "'en-US' is not served"),
    "target unknown": (body(tgt_lang="tlh"), 422, "tgt_lang: this model serves ko, no"),
    "target not served": (body(tgt_lang="fr"), 422, "this model serves ko, no"),
    "target a list": (body(tgt_lang=["ko"]), 422, "expected a string"),
    "target missing": (without("tgt_lang"), 422, "expected a string"),
    "half a character": (body("a\ud83d"), 422, "half of a surrogate pair"),
    "no beam": (body(beam_size=0), 422, "expected a whole number from 1 to 8"),
    "beam too wide": (body(beam_size=9), 422, "expected a whole number"),
    "beam a fraction": (body(beam_size=2.0), 422, "expected a whole number"),
    "beam a boolean": (body(beam_size=True), 422, "expected a whole number"),
    "fewer alternatives than none": (body(alternatives=-1), 422, "from 0 to 5"),
    "too many alternatives": (body(alternatives=6), 422, "from 0 to 5"),
    "text too long": (body(TOO_LONG), 422, "has 11 tokens, this model takes 10"),
}


@pytest.mark.parametrize(
    ("content", "status", "says"), MALFORMED.values(), ids=MALFORMED.keys()
)
def test_a_malformed_row_costs_the_other_63_nothing(
    handler: TranslationHandler,
    engine: FakeEngine,
    content: Any,
    status: int,
    says: str,
):
    bodies: list[Any] = [body(f"text {i}") for i in range(64)]
    bodies[41] = content
    answers = ask(handler, bodies)
    refused = answers.pop(41)
    assert refused.status == refused.content["status"] == status
    assert refused.content_type == "application/problem+json"
    assert says in refused.content["detail"]
    expected = [f"text {i}" for i in range(64) if i != 41]
    assert engine.batches == [expected]
    assert [a.content["translated"] for a in answers] == [f"[ko] {t}" for t in expected]
    assert {(a.status, a.content_type) for a in answers} == {
        (200, "application/json; charset=utf-8")
    }


def test_a_text_as_long_as_the_model_takes_is_translated(handler: TranslationHandler):
    eight_words = TOO_LONG.removesuffix("word ").strip()
    assert ask_one(handler, body(eight_words)).status == 200


def test_a_text_that_is_too_long_comes_back_with_numbers(handler: TranslationHandler):
    """By which the gateway splits it."""
    content = ask_one(handler, body(TOO_LONG)).content
    assert content["type"] == "urn:babelgate:text-too-long"
    assert (content["tokens"], content["limit"]) == (11, 10)


def test_a_long_unknown_language_is_not_repeated_in_full(handler: TranslationHandler):
    detail = ask_one(handler, body(src_lang="x" * 10_000)).content["detail"]
    assert "x" * 20 in detail
    assert "x" * 21 not in detail


@pytest.mark.parametrize(
    ("score", "is_doubtful"), [(-0.2, False), (-1.0, False), (-1.01, True), (-9, True)]
)
def test_a_low_score_carries_a_warning(
    handler: TranslationHandler, engine: FakeEngine, score: float, is_doubtful: bool
):
    engine.scores = {"Hello": score}
    answers = ask(handler, [body(), body("Other")])
    warnings = {"warnings": ["This is a demonstration."]} if is_doubtful else {}
    translated = {"translated": "[ko] Hello", "score": score}
    assert answers[0].content == translated | warnings
    assert "warnings" not in answers[1].content


def test_no_log_holds_what_people_translate(
    handler: TranslationHandler, engine: FakeEngine, caplog: pytest.LogCaptureFixture
):
    engine.breaks_on = SECRET
    bodies = [
        body(SECRET),
        body("Hello"),
        body(f"{SECRET}\ud83d"),
        body({SECRET: SECRET}),
        body(f"{SECRET} " * 20),
        body(src_lang=SECRET),
        body(tgt_lang=SECRET),
        f'{{"{SECRET}'.encode(),
    ]
    with caplog.at_level(logging.DEBUG):
        answers = ask(handler, bodies)
    assert [answer.status for answer in answers] == [500, 200, *[422] * 5, 400]
    assert "a batch of 3 rows failed with RuntimeError" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in answers[0].content["detail"]


def test_a_handler_is_warm_when_it_is_ready(start: Start, engine: FakeEngine):
    handler = start()
    assert len(engine.batches) == 1
    assert ask_one(handler, body()).content["translated"] == "[ko] Hello"


def test_a_model_that_cannot_translate_does_not_become_ready(
    start: Start, engine: FakeEngine
):
    engine.breaks_on = "1"
    with pytest.raises(RuntimeError):
        start()


def test_a_model_without_a_threshold_never_warns(start: Start, engine: FakeEngine):
    engine.scores = {"Hello": -99.0}
    assert "warnings" not in ask_one(start(), body()).content


def test_a_model_of_few_languages_takes_no_others(start: Start):
    handler = start(languages=["en", "ko", "no"])
    good, refused = ask(handler, [body(src_lang="no"), body(src_lang="sw")])
    assert (good.status, refused.status) == (200, 422)
    assert "expected one of en, ko, no" in refused.content["detail"]


def test_torchserve_finds_exactly_one_class():
    """It refuses a module that defines more, however private."""
    classes = inspect.getmembers(
        translation,
        lambda value: (
            inspect.isclass(value) and value.__module__ == translation.__name__
        ),
    )
    assert [found for _, found in classes] == [TranslationHandler]


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
