"""The evidence about a translation, and the effect of each item on its quality."""

import math

import pytest

from handlers.engine.directories import read_settings
from handlers.engine.translation.engine import Sentence, Translation
from handlers.engine.translation.guard import Fault
from handlers.engine.translation.quality import GENERIC, Evidence, estimate, gather
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK

PHRASEBOOKS = Evidence(**read_settings(PHRASEBOOK)["quality"])


def rate(answer: tuple[str, Translation], weights: Evidence) -> float:
    text, translation = answer
    return estimate(gather(Sentence(text, "en", "de"), translation), weights)


GOOD = ("My name is {0}", Translation("Ich heiße {0}", -0.1, margin=0.5))
WORSE: dict[str, tuple[str, Translation]] = {
    "less likely": (GOOD[0], Translation("Ich heiße {0}", -0.6, margin=0.5)),
    "faulty": (GOOD[0], Translation("{0} {0} {0}", -0.1, fault=Fault.LOOP, margin=0.5)),
    "without its placeholder": (GOOD[0], Translation("Ich heiße", -0.1, margin=0.5)),
}
WORSE_FOR_ONE = {
    "nearly another": (GOOD[0], Translation("Ich heiße {0}", -0.1, margin=0.01)),
    "too long": (GOOD[0], Translation("Ich heiße {0}" * 3, -0.1, margin=0.5)),
}


@pytest.mark.parametrize("worse", WORSE.values(), ids=WORSE.keys())
@pytest.mark.parametrize("weights", [GENERIC, PHRASEBOOKS], ids=["generic", "own"])
def test_what_speaks_against_a_translation_lowers_its_quality(weights, worse):
    assert 0 < rate(worse, weights) < rate(GOOD, weights) - 0.05 < 0.95


@pytest.mark.parametrize("worse", WORSE_FOR_ONE.values(), ids=WORSE_FOR_ONE.keys())
def test_a_model_that_is_calibrated_knows_more(worse):
    assert rate(worse, PHRASEBOOKS) < rate(GOOD, PHRASEBOOKS)
    assert rate(worse, GENERIC) == rate(GOOD, GENERIC)


def test_the_evidence_is_what_it_says():
    answer = Translation("안녕 세계", -0.97, fault=Fault.SCRIPT, margin=0.22)
    found = gather(Sentence("{0} ab {1}", "en", "ko"), answer)
    # The source has two letters, the answer four that count as two each.
    expected = (1, 0, math.log(0.25), math.log(3), math.log(9 / 3), 1, 2)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("score", [0.0, 0.1, -1e9, -math.inf, math.nan])
@pytest.mark.parametrize("margin", [None, 0.0, 1e9, math.inf, math.nan])
@pytest.mark.parametrize("text", ["", "Hello", "{0}" * 10_000])
def test_whatever_the_numbers_there_is_a_quality(score, margin, text):
    answer = text, Translation(text.lower(), score, margin=margin)
    assert 0 <= rate(answer, PHRASEBOOKS) <= 1
