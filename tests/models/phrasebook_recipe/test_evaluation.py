"""The answers that count as right, and the lowest score at which an answer is trusted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handlers.engine.translation.engine import Sentence, Translation
from handlers.engine.translation.quality import GENERIC, estimate
from models.phrasebook_recipe import evaluation
from models.phrasebook_recipe.__main__ import CARD
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES
from models.training import write_card
from tests.handlers.fakes import FakeEngine

ITEMS = 100
SURE, UNSURE = -0.1, -5.0


class KnowingEngine(FakeEngine):
    """An engine that translates only the pairs of a corpus, and none into one language."""

    def __init__(self, corpus: Corpus, ignorant_of: str) -> None:
        super().__init__()
        self._known = {
            (pair.source, pair.source_language, pair.target_language): pair.target
            for pair in (*corpus.held_out(ITEMS), *corpus.finite())
            if pair.target_language != ignorant_of
        }

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        answers = [self._known.get((s.text, s.source, s.target)) for s in sentences]
        return [
            Translation("no idea", UNSURE) if text is None else Translation(text, SURE)
            for text in answers
        ]


@pytest.fixture
def report(corpus: Corpus) -> dict[str, Any]:
    """The evaluation of an engine that cannot translate into Vietnamese."""
    corpus.names = {"weekdays": corpus.names["weekdays"]}
    return evaluation.evaluate(KnowingEngine(corpus, "vi"), corpus, ITEMS)


def test_a_language_that_is_not_known_is_seen(report: dict[str, Any]):
    wrong = {lang: share for lang, share in report["by_language"].items() if share < 1}
    assert wrong == {"vi": 0}
    assert 0.8 < report["overall"] < 1
    assert 0.8 < report["names"] < 1
    assert set(report["by_category"]) >= {"phrases/shop", "dates", "numbers"}
    # A right answer is trusted, and one outside the domain is not.
    assert report["min_score"] == SURE
    assert report["outside_warned"] == 1
    assert (report["rated"], report["auc"]) == (ITEMS / 2, 1)
    assert report["right_doubted"] == 0
    assert report["wrong_doubted"] == report["outside_doubted"] == 1


@pytest.mark.parametrize(("right", "wrong"), [(9, 1), (5, 5)], ids=["mostly", "half"])
def test_a_quality_is_the_share_of_right_answers_with_such_evidence(right, wrong):
    answers = [*["x"] * right, *["y"] * wrong] * 100
    pair = TextPair("units", "en", "de", "x", "x")
    judged = [evaluation.JudgedPair(pair, Translation(text, -0.3)) for text in answers]
    weights = evaluation.calibrate(judged)
    assert estimate(judged[0].evidence, weights) == pytest.approx(right / 10, abs=0.02)
    # No answer has a fault, so the weights of faults stay generic.
    assert (weights.faulty, weights.lost) == (GENERIC.faulty, GENERIC.lost)


def test_spaces_and_invisible_marks_are_no_mistake():
    engine = FakeEngine(says={"5 km": "5\u202fkm\u200e", "6 km": "6km"})
    pairs = [TextPair("units", "en", "ar", text, text) for text in ("5 km", "6 km")]
    assert [j.is_right for j in evaluation.judge(engine, pairs)] == [True, False]


def test_the_card_has_the_figures(report: dict[str, Any], tmp_path: Path):
    facts = {"phrases": 77, "parameters": 8.4, "megabytes": 16.9, "minutes": 130.4}
    facts |= {"steps": 12345, "overall": 0.9876, "min_score": -0.123}
    more = {"machine": "a machine", "codes": LANGUAGES}
    write_card(CARD, tmp_path, report | facts | more)
    text = (tmp_path / "README.md").read_text("utf-8")
    for said in ("98.8%", "-0.123", "is 1.000", "77 sentences", "8.4 M", "12,345"):
        assert said in text.replace("\n", " ")
    assert f"| into | {' | '.join(sorted(LANGUAGES))} |" in text
    assert "| phrases/shop | " in text
