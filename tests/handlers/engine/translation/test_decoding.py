"""The options of the search, on both engines with the model that ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.engine.errors import OutOfMemory
from handlers.engine.translation import conversion
from handlers.engine.translation.batching import Batcher
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.m2m100 import (
    Decoding,
    Engine,
    Sentence,
    longest_answer,
    read_beams,
)
from handlers.engine.translation.transformers import TransformersEngine
from tests.handlers.engine.conftest import MakeEngine
from tests.handlers.fakes import FakeTokenizer

pytestmark = pytest.mark.slow

DECODINGS = [
    Decoding(beam_size=1),
    Decoding(beam_size=4),
    Decoding(alternatives=3),
    Decoding(beam_size=1, alternatives=5),
    Decoding().careful(),
]
#: Answers out of six that may differ: ties swap with rounding.
ALLOWED_DIFFERENCES = 1


@pytest.fixture
def few(sentences: list[Sentence]) -> list[Sentence]:
    return sentences[:6]


def ask_for(decoding: Decoding, sentences: Sequence[Sentence]) -> list[Sentence]:
    return [replace(sentence, decoding=decoding) for sentence in sentences]


def differences(some: Sequence[Any], others: Sequence[Any]) -> int:
    return sum(a.text != b.text for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("decoding", DECODINGS[:-1], ids=str)
def test_both_engines_search_alike(
    decoding: Decoding, make_engine: MakeEngine, few: list[Sentence]
):
    rows = ask_for(decoding, few)
    answers = make_engine("float32").translate(rows)
    reference = make_engine("reference").translate(rows)
    assert differences(answers, reference) <= ALLOWED_DIFFERENCES
    for a, b in zip(answers, reference, strict=True):
        if a.text == b.text:
            assert a.score == pytest.approx(b.score, abs=0.001)


@pytest.mark.parametrize("decoding", DECODINGS[2:4], ids=str)
def test_alternatives_are_as_many_as_asked_different_and_the_best_first(
    decoding: Decoding, engine: Engine, few: list[Sentence]
):
    for answer in engine.translate(ask_for(decoding, few)):
        assert len(answer.alternatives) <= decoding.alternatives
        # Only a beam of texts that differ in their spaces alone holds fewer.
        assert len(answer.alternatives) >= decoding.alternatives - 1
        scores = [answer.score, *(other.score for other in answer.alternatives)]
        assert scores == sorted(scores, reverse=True)
        texts = {answer.text, *(other.text for other in answer.alternatives)}
        assert len(texts) == 1 + len(answer.alternatives)


def test_packing_does_not_change_an_answer(engine: Engine, few: list[Sentence]):
    """Nor do rows that ask for something else."""
    rows = [
        replace(sentence, decoding=DECODINGS[i % len(DECODINGS)])
        for i, sentence in enumerate(few)
    ]
    answers, _ = Batcher(engine, max_tokens=40).translate(rows)
    alone = [engine.translate([row])[0] for row in rows]
    assert differences(answers, alone) <= ALLOWED_DIFFERENCES


@pytest.fixture(scope="module")
def rambling(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> dict[str, Engine]:
    """Engines of a model that has learnt nothing: its answers repeat themselves until they
    are cut."""
    converted = conversion.convert(tiny, tmp_path_factory.mktemp("tiny"), "float32")
    return {
        "reference": TransformersEngine(tiny),
        "float32": CTranslate2Engine(converted, compute_type="float32"),
    }


@pytest.mark.parametrize("name", ["reference", "float32"])
@pytest.mark.parametrize("words", [1, 20])
def test_an_answer_is_bounded_by_its_text(
    name: str, words: int, rambling: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
):
    engine = rambling[name]
    lengths = []

    def decode(tokens: Sequence[str]) -> str:
        lengths.append(len(tokens))
        return "text"

    monkeypatch.setattr(engine.tokenizer, "decode", decode)
    text = "1 " * words
    engine.translate([Sentence(text, "en", "de")])
    tokens = len(engine.tokenizer.encode(text, "en"))
    # Both of the start tokens may be among them.
    assert max(lengths) <= longest_answer(tokens, engine.max_tokens) + 1


HYPOTHESES = [
    (["b"], -0.5),
    (["a"], -0.1),
    (["a"], -0.2),
    ([], -0.3),
    (["c"], -0.4),
    (["d"], -0.9),
]


@pytest.mark.parametrize(
    ("decoding", "others"),
    [
        (Decoding(), []),
        (Decoding(alternatives=1), []),
        (Decoding(beam_size=4, alternatives=1), ["c"]),
        (Decoding(beam_size=5, alternatives=3), ["c", "b"]),
        (Decoding(beam_size=8, alternatives=2), ["c", "b"]),
    ],
    ids=str,
)
def test_a_beam_is_read_without_doubles_and_blanks(
    decoding: Decoding, others: list[str]
):
    class Joining(FakeTokenizer):
        def decode(self, rows: Sequence[Sequence[str]]) -> list[str]:
            return ["".join(row) for row in rows]

    (answer,) = read_beams([HYPOTHESES], Joining(), decoding)
    assert (answer.text, answer.score) == ("a", -0.1)
    assert [other.text for other in answer.alternatives] == others


@pytest.mark.parametrize("name", ["reference", "float32"])
def test_the_devices_errors_are_ours(
    name: str, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA failed with error out of memory")

    broken = SimpleNamespace(generate=fail, translate_batch=fail)
    monkeypatch.setattr(make_engine(name), "_model", broken)
    with pytest.raises(OutOfMemory):
        make_engine(name).translate([Sentence("1", "en", "de")])
