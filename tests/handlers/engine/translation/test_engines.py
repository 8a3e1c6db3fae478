"""Both engines on the model that ships. It may be an early checkpoint of a training, so the
tests check the form of translations and the engines' agreement, not the content."""

import math
import re
import statistics
import unicodedata
from collections.abc import Sequence
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from handlers.engine.errors import OutOfMemory
from handlers.engine.translation.engine import (
    Decoding,
    Engine,
    Sentence,
    Translation,
    read_beams,
)
from tests.handlers.engine.conftest import MakeEngine
from tests.handlers.fakes import FakeTokenizer

pytestmark = pytest.mark.slow

#: Below this score, near ties change places with the last digit of a sum, and answers that do
#: not end are cut at a length that depends on their batch.
SURE = -0.5
CONTROL = re.compile(r"__\w+__|</?\w+>")


@pytest.fixture
def few(sentences: list[Sentence]) -> list[Sentence]:
    return sentences[:6]


def share_of_other_texts(
    some: Sequence[Translation], others: Sequence[Translation]
) -> float:
    """Return the share of texts that differ, not counting pairs of two low scores."""
    pairs = [
        (a, b)
        for a, b in zip(some, others, strict=True)
        if max(a.score, b.score) > SURE
    ]
    assert pairs, "the model is sure of nothing"
    return sum(a.text != b.text for a, b in pairs) / len(some)


@pytest.mark.parametrize(
    ("name", "differing", "apart"), [("float32", 0.02, 0.001), ("int8", 0.1, 0.05)]
)
def test_ctranslate2_gives_the_answers_and_scores_of_transformers(
    *, name, differing, apart, make_engine, sentences
):
    answers = make_engine(name).translate(sentences)
    reference = make_engine("reference").translate(sentences)
    assert share_of_other_texts(answers, reference) <= differing
    same = [(a, b) for a, b in zip(answers, reference, strict=True) if a.text == b.text]
    assert len(same) > len(sentences) / 2
    for a, b in same:
        assert a.score == pytest.approx(b.score, abs=apart)
    # In a few rows, the libraries' other hypotheses differ.
    margins = [(a.margin or 0.0, b.margin or 0.0) for a, b in same]
    assert statistics.median(abs(a - b) for a, b in margins) <= apart


def test_an_answer_is_clean_text_with_a_log_probability(engine, few):
    answers = engine.translate(few)
    assert len(answers) == len(few)
    for answer in answers:
        assert not CONTROL.search(answer.text)
        assert "▁" not in answer.text
        assert answer.text == answer.text.strip()
        assert unicodedata.is_normalized("NFC", answer.text)
        assert math.isfinite(answer.score)
        assert answer.score <= 0


def test_an_answer_ends_at_the_models_limit(engine, few, monkeypatch):
    lengths: list[int] = []

    def decode(rows: Sequence[Sequence[str]]) -> list[str]:
        lengths.extend(sum(not CONTROL.fullmatch(t) for t in row) for row in rows)
        return [""] * len(rows)

    monkeypatch.setattr(engine.tokenizer, "decode", decode)
    monkeypatch.setattr(engine, "max_tokens", 6)
    engine.translate(few)
    # The language token is the first of the six.
    assert max(lengths) == 5


def test_a_text_that_is_too_long_is_not_cut_in_silence(make_engine: MakeEngine):
    engine = make_engine("int8")
    text = "1 " * engine.max_tokens
    with pytest.raises(RuntimeError, match="position"):
        engine.translate([Sentence(text, "en", "de")])


@pytest.mark.parametrize("text", ["", "😀", "\x00", "ꙮ" * 5, "</s>", "__de__"])
def test_whatever_the_text_there_is_an_answer(text: str, engine: Engine):
    (answer,) = engine.translate([Sentence(text, "en", "fr")])
    assert not CONTROL.search(answer.text)


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
def test_a_beam_is_read_without_doubles_and_blanks(decoding, others):
    class Joining(FakeTokenizer):
        def decode(self, rows: Sequence[Sequence[str]]) -> list[str]:
            return ["".join(row) for row in rows]

    (answer,) = read_beams([HYPOTHESES], Joining(), decoding)
    assert (answer.text, answer.score) == ("a", -0.1)
    assert answer.margin == pytest.approx(0.1)
    assert [other.text for other in answer.alternatives] == others


@pytest.mark.parametrize("name", ["reference", "float32"])
def test_the_devices_errors_are_ours(name, make_engine, monkeypatch):
    fail = Mock(side_effect=RuntimeError("CUDA failed with error out of memory"))
    broken = SimpleNamespace(generate=fail, translate_batch=fail)
    monkeypatch.setattr(make_engine(name), "_model", broken)
    with pytest.raises(OutOfMemory):
        make_engine(name).translate([Sentence("1", "en", "de")])
