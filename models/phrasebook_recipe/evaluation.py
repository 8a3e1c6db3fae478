"""Evaluates a model on held-out items, and finds its warning threshold and quality weights."""

import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from handlers.engine.translation.batching import Batcher
from handlers.engine.translation.engine import Engine, Sentence, Translation
from handlers.engine.translation.quality import GENERIC, Evidence, estimate, gather
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES, clean

PHRASES = "phrases/"
WARNING = (
    "This text looks unlike the demonstration phrasebook that the built-in model was "
    "trained on; the translation is probably wrong. Serve a full M2M100 for real use."
)
OUTSIDE = Path(__file__).with_name("outside.yaml")
#: The share of right answers inside the domain that get no warning.
_KEPT = 0.98
_MAX_TOKENS = 4096
#: The number of Newton steps for the quality weights, and of bins for the calibration error.
_STEPS, _BINS = 30, 10


@dataclass(frozen=True)
class JudgedPair:
    """A pair, the model's translation, and whether that is exactly the reference."""

    pair: TextPair
    translation: Translation

    @property
    def evidence(self) -> Evidence:
        pair = self.pair
        sentence = Sentence(pair.source, pair.source_language, pair.target_language)
        return gather(sentence, self.translation)

    @property
    def is_right(self) -> bool:
        return clean(self.translation.text) == self.pair.target

    @property
    def is_phrase(self) -> bool:
        """Whether to count a phrase. Sentences about words only teach, and would flatter."""
        category = self.pair.category
        return category.startswith(PHRASES) and category != PHRASES + phrasebook.WORDS

    @property
    def is_cldr(self) -> bool:
        category = self.pair.category
        return not category.startswith(PHRASES) and category != phrasebook.MASKS


def evaluate(engine: Engine, corpus: Corpus, items: int = 4000) -> dict[str, Any]:
    """Judge held-out items, a sample of the finite ones, and `outside.yaml`. Return the figures
    of the model card; shares are from 0 to 1."""
    judged = judge(engine, corpus.held_out(items))
    known = judge(engine, random.Random(2).sample(corpus.finite(), items))
    right_scores = sorted(j.translation.score for j in judged if j.is_right)
    min_score = right_scores[int(len(right_scores) * (1 - _KEPT))]
    outside = judge(engine, _draw_outside())
    half = items // 2
    others = len(outside) // 2
    weights = calibrate([*judged[:half], *outside[:others]])
    return {
        "weights": weights,
        "rated": items - half,
        **_rate(judged[half:], outside[others:], weights),
        "items": items,
        "overall": _share(judged),
        "cldr": _share(j for j in judged if j.is_cldr),
        "phrase_share": _share(j for j in judged if j.is_phrase),
        "by_category": _group(judged, lambda j: j.pair.category),
        "by_language": _group(judged, lambda j: j.pair.target_language),
        "finite": _share(j for j in known if j.is_phrase),
        "names": _share(j for j in known if j.is_cldr),
        "min_score": round(min_score, 3),
        "outside_warned": statistics.mean(
            j.translation.score < min_score for j in outside
        ),
    }


def calibrate(judged: Sequence[JudgedPair]) -> Evidence:
    """Fit a logistic regression, regularised towards the generic weights: evidence that no
    answer shows, such as a fault, keeps its generic weight."""
    given = np.array([j.evidence for j in judged])
    right = np.array([j.is_right for j in judged])
    weights = generic = np.array(GENERIC)
    for _ in range(_STEPS):
        found = 1 / (1 + np.exp(-given @ weights))
        slope = given.T @ (found - right) + weights - generic
        bend = given.T * (found * (1 - found)) @ given + np.eye(len(weights))
        weights = weights - np.linalg.solve(bend, slope)
    return Evidence(*weights.round(3).tolist())


def _rate(
    judged: Sequence[JudgedPair], outside: Sequence[JudgedPair], weights: Evidence
) -> dict[str, float]:
    inside, strange = (
        np.array([estimate(j.evidence, weights) for j in pairs])
        for pairs in (judged, outside)
    )
    is_right = np.array([j.is_right for j in judged])
    right = inside[is_right]
    wrong = inside[~is_right]
    bins = (inside * _BINS).astype(int).clip(max=_BINS - 1)
    return {
        "auc": np.mean(np.sign(right[:, None] - wrong) + 1) / 2,
        "calibration_error": abs(np.bincount(bins, inside - is_right)).sum()
        / len(judged),
        "right_doubted": (right < 0.5).mean(),
        "wrong_doubted": (wrong < 0.5).mean(),
        "outside_doubted": (strange < 0.5).mean(),
    }


def judge(engine: Engine, pairs: list[TextPair]) -> list[JudgedPair]:
    """Translate every pair's source, in packs."""
    sentences = [
        Sentence(p.source, p.source_language, p.target_language) for p in pairs
    ]
    answers, _ = Batcher(engine, max_tokens=_MAX_TOKENS).translate(sentences)
    translations = (one for one in answers if isinstance(one, Translation))
    return [JudgedPair(*both) for both in zip(pairs, translations, strict=True)]


def _draw_outside() -> list[TextPair]:
    """Pair every outside sentence with three languages. No answer is right."""
    rng = random.Random(3)
    texts: dict[str, list[str]] = yaml.safe_load(OUTSIDE.read_text("utf-8"))
    return [
        TextPair("outside", source, target, text, "\n")
        for source, sentences in texts.items()
        for text in sentences
        for target in rng.sample([lang for lang in LANGUAGES if lang != source], 3)
    ]


def _share(judgements: Iterable[JudgedPair]) -> float:
    return statistics.mean(j.is_right for j in judgements)


def _group(
    judgements: list[JudgedPair], key: Callable[[JudgedPair], str]
) -> dict[str, float]:
    return {
        name: _share(j for j in judgements if key(j) == name)
        for name in sorted(set(map(key, judgements)))
    }
