"""Estimates the probability that a translation is right from numbers that cost nothing extra: a
logistic model with weights per checkpoint, because each is confident in a different way.
"""

import math
from operator import mul
from typing import NamedTuple

from handlers.engine.translation.engine import Sentence, Translation
from handlers.engine.translation.guard import PLACEHOLDER, weigh

#: The largest score and margin that count, and the number added before their logarithms.
_MOST, _OFFSET = 100.0, 0.03
#: A typical margin, assumed for a search with a single hypothesis.
_MARGIN = 0.4


class Evidence(NamedTuple):
    """The evidence for or against a translation, in numbers; as a model, their weights."""

    constant: float
    #: The logarithm of the mean negative log-probability per token.
    surprisal: float
    #: The logarithm of the score's distance from that of the second hypothesis.
    margin: float
    #: The logarithm of the text's length in letters of an alphabet.
    length: float
    #: The distance of that from the logarithm of the translation's length.
    ratio: float
    #: 1 if the guard found a fault.
    faulty: float
    #: The number of lost placeholders.
    lost: float


#: The model for checkpoints without one: by the log-probability alone, except for faults. It is
#: not calibrated, so its values rank translations but are not probabilities.
GENERIC = Evidence(-0.3, -1.3, 0.0, 0.0, 0.0, faulty=-5.0, lost=-3.0)


def gather(sentence: Sentence, translation: Translation) -> Evidence:
    """Collect the evidence about a sentence's translation, in finite numbers."""
    text, translated = sentence.text, translation.text
    score = min(0.0, max(-_MOST, translation.score))  # NaN becomes the lowest
    margin = _MARGIN if translation.margin is None else translation.margin
    length, other = math.log(1 + weigh(text)), math.log(1 + weigh(translated))
    lost = set(PLACEHOLDER.findall(text)) - set(PLACEHOLDER.findall(translated))
    return Evidence(
        constant=1.0,
        surprisal=math.log(_OFFSET - score),
        margin=math.log(_OFFSET + min(_MOST, max(0.0, margin))),
        length=length,
        ratio=abs(other - length),
        faulty=float(translation.fault is not None),
        lost=float(len(lost)),
    )


def estimate(evidence: Evidence, weights: Evidence) -> float:
    """The probability that the translation is right, from 0 to 1."""
    return (1 + math.tanh(sum(map(mul, evidence, weights)) / 2)) / 2
