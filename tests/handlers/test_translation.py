"""The translation task on a fake engine: the checks of a row and the answers to its client."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl  # type: ignore[import-untyped]

from handlers.base import ModelConfig, TaskError
from handlers.engine.directories import Digests, ModelError, digest_files, seal
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.guard import Fault
from handlers.translation import TranslationHandler
from tests.handlers.conftest import Start
from tests.handlers.encoding import write_image
from tests.handlers.fakes import FakeEngine, FakeMetrics, ask, ask_one, body, row
from tests.handlers.test_vision import start as start_task
from tests.random_vision import draw_frames

METRICS = Path(__file__).parents[2] / "torchserve_backend" / "metrics.yaml"
SECRET = "xylophone"
TOO_LONG = "word " * 9
LOOP = "개 " * 8


def without(field: str) -> bytes:
    return json.dumps({k: v for k, v in row().items() if k != field}).encode()


def test_the_target_is_each_rows_own(handler: TranslationHandler, engine: FakeEngine):
    answers = ask(handler, [body(tgt_lang="no"), body(tgt_lang="ko")])
    said = [answer.content["translated"] for answer in answers]
    assert said == ["[no] Hello", "[ko] Hello"]
    assert len(engine.batches) == 1


MALFORMED: dict[str, tuple[Any, int, str]] = {
    "not JSON": (b"{", 400, "Content-Type: application/json"),
    "a list": (b"[1]", 422, "expected a JSON object"),
    "no text": (without("src_text"), 422, "expected a string"),
    "no source": (without("src_lang"), 422, "src_lang: missing, expected a string"),
    "text a list": (body(["Hello"]), 422, "expected a string"),
    "source unknown": (body(src_lang="tlh"), 422, "src_lang: 'tlh' is not served"),
    "source long": (body(src_lang="x" * 30), 422, f": {'x' * 20!r} is not served"),
    "target not served": (body(tgt_lang="fr"), 422, "tgt_lang: this model serves ko"),
    "target missing": (without("tgt_lang"), 422, "expected a string"),
    "half a character": (body("a\ud83d"), 422, "half of a surrogate pair"),
    "beam too wide": (body(beam_size=9), 422, "expected a whole number from 1 to 8"),
    "beam a fraction": (body(beam_size=2.0), 422, "expected a whole number"),
    "beam a boolean": (body(beam_size=True), 422, "expected a whole number"),
    "too many alternatives": (body(alternatives=6), 422, "from 0 to 5"),
    "text too long": (body(TOO_LONG), 422, "has 11 tokens, this model accepts 10"),
}


@pytest.mark.parametrize(
    ("content", "status", "says"), MALFORMED.values(), ids=MALFORMED.keys()
)
def test_a_malformed_row_costs_the_other_63_nothing(
    handler, engine, content, status, says
):
    bodies: list[Any] = [body(f"text {i}") for i in range(64)]
    bodies[41] = content
    answers = ask(handler, bodies)
    refused = answers.pop(41)
    assert refused.status == refused.content["status"] == status
    assert refused.content_type == "application/problem+json"
    assert says in refused.content["detail"]
    if content == body(TOO_LONG):  # the gateway needs both to split it
        assert (refused.content["tokens"], refused.content["limit"]) == (11, 10)
    expected = [f"text {i}" for i in range(64) if i != 41]
    assert engine.batches == [expected]
    assert [a.content["translated"] for a in answers] == [f"[ko] {t}" for t in expected]
    kind = "application/json; charset=utf-8"
    assert {(a.status, a.content_type) for a in answers} == {(200, kind)}


@pytest.mark.parametrize(
    ("score", "is_doubtful"), [(-0.2, False), (-1.0, False), (-1.01, True), (-9, True)]
)
def test_a_low_score_carries_a_warning(handler, engine, score, is_doubtful):
    engine.scores = {"Hello": score}
    answers = ask(handler, [body(), body("Other")])
    warnings = {"warnings": ["This is a demonstration."]} if is_doubtful else {}
    found = answers[0].content
    assert found.pop("compute_ms") >= 0
    assert 0 < found.pop("quality") < 1
    translated = {"translated": "[ko] Hello", "score": score, "model": handler.digest}
    assert found == translated | warnings
    assert "warnings" not in answers[1].content


def test_a_model_may_have_weights_of_its_quality(start: Start):
    generic, own = start(), start(quality={"constant": 5.0})
    found = [ask_one(each, body()).content["quality"] for each in (generic, own)]
    assert 0.5 < found[0] < found[1] < 1
    with pytest.raises(RuntimeError, match="charm"):
        start(quality={"charm": 1.0})


def test_no_log_holds_what_people_translate(handler, engine, caplog):
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


def test_a_model_that_cannot_translate_does_not_become_ready(start, engine):
    engine.memory = 0
    with pytest.raises(RuntimeError, match="memory"):
        start()
    engine.memory = 8
    start()
    assert len(engine.batches) == 2


def test_a_conversion_that_is_gone_is_named(tmp_path: Path):
    options: dict[str, Any] = {"engine": "ctranslate2", "compute_type": "int8"}
    options |= {"languages": ["ko"], "max_beam_size": 1, "max_alternatives": 0}
    with pytest.raises(ModelError, match=f"{tmp_path} is damaged .complete.json is"):
        TranslationHandler().load_model(ModelConfig(tmp_path, None, options))


def test_a_model_of_few_languages_takes_no_others(start: Start):
    handler = start(languages=["en", "ko", "no"])
    good, refused = ask(handler, [body(src_lang="no"), body(src_lang="sw")])
    assert (good.status, refused.status) == (200, 422)
    assert "expected one of en, ko, no" in refused.content["detail"]
    assert "warnings" not in good.content


def test_alternatives_come_with_their_scores(handler: TranslationHandler):
    content = ask_one(handler, body(alternatives=2)).content
    assert (content["translated"], content["score"]) == ("[ko] Hello", -0.1)
    assert content["alternatives"] == [
        {"text": "[ko] Hello 0", "score": -1.0},
        {"text": "[ko] Hello 1", "score": -2.0},
    ]


def test_a_digest_tells_models_and_options_apart(start: Start, tmp_path: Path):
    first, again = start(), start()
    (tmp_path / "model.bin").write_bytes(b"weights")
    others = start(), start(options={"compute_type": "float32"}), start(min_score=-1.0)
    assert first.digest == again.digest
    digests = {first.digest, *(handler.digest for handler in others)}
    assert len(digests) == 4
    assert all(re.fullmatch("[0-9a-f]{16}", d) for d in digests)


def test_the_digest_of_a_sealed_directory_is_of_its_seal(tmp_path: Path):
    (tmp_path / "model.bin").write_bytes(b"weights")
    unsealed = digest_files(tmp_path)
    seal(tmp_path, Digests())
    assert digest_files(tmp_path) == unsealed
    (tmp_path / "model.bin").unlink()
    assert digest_files(tmp_path) == unsealed


def test_the_map_limits_what_a_row_may_ask_for(start: Start, engine: FakeEngine):
    options = {"max_beam_size": 1, "max_alternatives": 0, "max_batch_tokens": 6}
    handler = start(options=options | {"languages": ["ko"]})
    bodies = [body(), body(beam_size=1), body(beam_size=2), body(alternatives=1)]
    answers = ask(handler, bodies)
    assert [answer.status for answer in answers] == [200, 200, 422, 422]
    assert engine.decodings[-1].beams == 1
    engine.batches.clear()
    answers = ask(handler, [without("tgt_lang"), body("B"), body("C")])
    assert answers[0].content["translated"] == "[ko] Hello"
    assert engine.batches == [["Hello", "B"], ["C"]]


def test_an_answer_that_stays_faulty_carries_a_warning_and_a_copy_is_counted(
    handler, engine
):
    text = "where is it now"
    engine.says = engine.says_carefully = {"Hello": LOOP, text: text}
    engine.scores = {"Hello": -2.0}
    metrics = FakeMetrics()
    loop, copy = ask(handler, [body(), body(text)], metrics=metrics)
    assert loop.content["translated"] == LOOP
    assert loop.content["warnings"] == [Fault.LOOP.value, "This is a demonstration."]
    assert copy.content["translated"] == text
    assert copy.content["warnings"] == [Fault.UNTRANSLATED.value]
    assert metrics.counters["BabelgateUntranslatedRows"] == 1


def test_a_row_that_does_not_fit_into_memory_is_503_and_alone(handler, engine):
    engine.memory = 4
    answers = ask(handler, [body("A"), body("B b b b b"), body("C")])
    assert [answer.status for answer in answers] == [200, 503, 200]
    assert answers[1].content["type"] == "urn:babelgate:out-of-memory"
    assert "even alone" in answers[1].content["detail"]


def test_a_row_whose_deadline_passes_in_the_batch_is_504(handler: TranslationHandler):
    (late,) = handler.infer([Sentence("Hello", "en", "ko")], deadline=0.0).results
    assert isinstance(late, TaskError)
    assert (late.status, late.slug) == (504, "deadline")


# TorchServe leaves the file open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_every_metric_of_a_batch_is_declared_and_emitted(start, find_model, caplog):
    """TorchServe drops metrics that `metrics.yaml` does not declare, and reads the others from
    one line each. Lines that its worker logs for each batch would wake up its frontend."""
    metrics = MetricsCacheYamlImpl(config_file_path=METRICS)
    metrics.initialize_cache()
    metrics.model_name = "ko"
    metrics.set_request_ids({0: "first", 1: "second"})
    caplog.set_level(logging.INFO)  # as TorchServe does
    handler = start()
    logging.info("Backend received inference at: 1795802640")
    ask(handler, [body("A"), body("B b")], metrics=metrics)
    classifier = start_task("classification", find_model("resnet"))
    ask(classifier, [b"", write_image(draw_frames(1)[0])], metrics=metrics)
    metrics.add_time("PredictionTime", 1.5)
    lines = caplog.messages
    emitted = {line.removeprefix("[METRICS]").partition(".")[0] for line in lines}
    kept = metrics.cache.items()
    (counters,) = [set(found) for kind, found in kept if kind.value == "counter"]
    assert emitted == counters
    # Each metric once, except for those of both tasks.
    common = {"Batches", "Rows", "DroppedRows", "QueueMs", "ComputeMs", "HalvedPacks"}
    assert len(lines) == len(emitted) + len(common)
    for line in lines:
        assert "|#ModelName:ko,Level:Model|" in line
        assert line.endswith(",first")
