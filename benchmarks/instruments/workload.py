"""The requests that benchmarks send for each task: the phrasebook's sentences, or images of
shapes, the same in every run.
"""

import io
import itertools
import json
import math
import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np
from PIL import Image

from benchmarks.instruments.generator import Request
from contract.tasks import CAPTIONING, PATHS, TRANSLATION
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.families.m2m100 import M2M100Tokenizer
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from models.shapes_recipe import samples

_FINAL_MARKS = ".!?。！？।؟"
#: For texts of a length: phrases to choose from, tries per text, and the sufficient share.
_POOL, _CANDIDATES, _NEAR = 4000, 8, 0.9
#: Draws per sentence before sentences are repeated.
_ATTEMPTS = 50


def draw(
    count: int, targets: Collection[str] = (), *, tokens: tuple[int, int] | None = None
) -> tuple[Sentence, ...]:
    """Draw sentences between random languages, or into `targets`, the same in every run and
    distinct as long as there are enough. With `tokens`, draw texts with lengths in about that
    range, made of phrases joined by commas."""
    rng = random.Random(0)
    if tokens is None:
        return _draw_phrases(rng, count, targets)
    pools: dict[str, list[Sentence]] = {}
    for sentence in _draw_phrases(rng, _POOL, targets):
        pools.setdefault(sentence.source, []).append(sentence)
    least, most = map(math.log, tokens)
    return tuple(
        _join(rng, pools, math.exp(rng.uniform(least, most))) for _ in range(count)
    )


def write_document(language: str, size_bytes: int, *, seed: int = 0) -> str:
    """Return a text of at least this size in UTF-8, with one phrase per line."""
    rng = random.Random(seed)
    phrases = [p for p in _load_corpus().phrases if p.domain != phrasebook.WORDS]
    lines: list[str] = []
    missing = size_bytes
    while missing > 0:
        line = rng.choice(phrases).draw(rng).text(language) + "\n"
        lines.append(line)
        missing -= len(line.encode())
    return "".join(lines)


def write_request(sentence: Sentence, path: str = "/", **options: Any) -> Request:
    """Return the request for a sentence's translation."""
    body = {
        "src_lang": sentence.source,
        "src_text": sentence.text,
        "tgt_lang": sentence.target,
        **options,
    }
    return Request(json.dumps(body, ensure_ascii=False).encode(), path)


def _draw_phrases(
    rng: random.Random, count: int, targets: Collection[str]
) -> tuple[Sentence, ...]:
    sentences: dict[Sentence, None] = {}
    for _ in range(_ATTEMPTS * count):
        pair = _load_corpus().draw(rng)
        target = rng.choice(sorted(targets)) if targets else pair.target_language
        sentence = Sentence(pair.source, pair.source_language, target)
        # A mask is the gateway's placeholder for a removed part of a text.
        if sentence.source != sentence.target and "{" not in sentence.text:
            sentences[sentence] = None
        if len(sentences) == count:
            break
    return tuple(itertools.islice(itertools.cycle(sentences), count))


def _join(
    rng: random.Random, pools: Mapping[str, list[Sentence]], tokens: float
) -> Sentence:
    """Make several texts of phrases, and return the one closest to this many tokens."""
    first = rng.choice(pools[rng.choice(list(pools))])
    pool = pools[first.source]

    def count(text: str) -> int:
        return len(_load_tokenizer().encode(text, first.source))

    def lengthen() -> str:
        text = rng.choice(pool).text
        while count(text) < _NEAR * tokens:
            text = f"{text.rstrip(_FINAL_MARKS)}, {rng.choice(pool).text}"
        return text

    texts = (lengthen() for _ in range(_CANDIDATES))
    return replace(first, text=min(texts, key=lambda text: abs(count(text) - tokens)))


@cache
def _load_corpus() -> Corpus:
    return Corpus(phrasebook.load())


@cache
def _load_tokenizer() -> M2M100Tokenizer:
    return M2M100Tokenizer(phrasebook.MODEL)


#: The tasks that can be measured.
MeasuredTask = Literal["translation", "captioning", "classification", "detection"]

#: The usual number of requests to draw for a measurement.
REQUESTS = 2000
#: Drawing more pictures would take longer than most measurements.
_PICTURES = 200


def draw_requests(
    task: str,
    count: int,
    *,
    targets: Collection[str] = (),
    tokens: tuple[int, int] | None = None,
) -> list[Request]:
    """Draw the same requests in every run, frames as arrays and images as JPEG; `targets` and
    `tokens` are those of `draw`."""
    if task == TRANSLATION:
        return list(map(write_request, draw(count, targets, tokens=tokens)))
    requests = []
    for sample in samples.held_out(samples.ShapesTask(task), min(count, _PICTURES)):
        stream = io.BytesIO()
        if task == CAPTIONING:
            np.save(stream, sample.picture)
        else:
            Image.fromarray(sample.picture).save(stream, "JPEG", quality=90)
        requests.append(Request(stream.getvalue(), PATHS[task]))
    return list(itertools.islice(itertools.cycle(requests), count))
