"""What is translated in the benchmarks: the phrasebook's sentences, the same in every run."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Collection
from functools import cache

from handlers.engine.m2m100 import Sentence
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus

_FINAL_MARKS = ".!?。！？।؟"
#: How many phrases are joined to one text of mixed length, and how often.
_PHRASES = {1: 60, 2: 20, 4: 12, 8: 8}
#: Draws per sentence before they repeat themselves.
_ATTEMPTS = 50


def draw(
    count: int, targets: Collection[str] = (), *, seed: int = 0
) -> tuple[Sentence, ...]:
    """Sentences in random directions into `targets` (or any language), no two alike as
    long as there are so many: in a batch equal ones are translated once."""
    rng = random.Random(seed)
    sentences: dict[Sentence, None] = {}
    for _ in range(_ATTEMPTS * count):
        sentence = _draw_sentence(rng, targets)
        # A mask stands for what the gateway has taken out of a text; it is no text.
        if sentence.source != sentence.target and "{" not in sentence.text:
            sentences[sentence] = None
        if len(sentences) == count:
            break
    return tuple(itertools.islice(itertools.cycle(sentences), count))


def draw_mixed(
    count: int, targets: Collection[str] = (), *, seed: int = 0
) -> tuple[Sentence, ...]:
    """Sentences of very different length: some are several phrases with commas between."""
    rng = random.Random(seed)
    pools: dict[str, list[Sentence]] = {}
    for sentence in draw(4 * count, targets, seed=seed):
        pools.setdefault(sentence.source, []).append(sentence)
    return tuple(_join(rng, pools) for _ in range(count))


def write_document(language: str, size_bytes: int, *, seed: int = 0) -> str:
    """A text of at least so many bytes in UTF-8, a phrase a line."""
    rng = random.Random(seed)
    phrases = [p for p in _load_corpus().phrases if p.domain != phrasebook.WORDS]
    lines: list[str] = []
    missing = size_bytes
    while missing > 0:
        line = rng.choice(phrases).draw(rng).text(language) + "\n"
        lines.append(line)
        missing -= len(line.encode())
    return "".join(lines)


def write_body(sentence: Sentence) -> bytes:
    """The request that asks for its translation."""
    body = {
        "src_lang": sentence.source,
        "src_text": sentence.text,
        "tgt_lang": sentence.target,
    }
    return json.dumps(body, ensure_ascii=False).encode()


def _join(rng: random.Random, pools: dict[str, list[Sentence]]) -> Sentence:
    first = rng.choice(pools[rng.choice(list(pools))])
    phrases = rng.choices(list(_PHRASES), list(_PHRASES.values()))[0]
    others = rng.choices(pools[first.source], k=phrases - 1)
    bare = [s.text.rstrip(_FINAL_MARKS) for s in (*others, first)]
    text = ", ".join(bare) if others else first.text
    return Sentence(text, first.source, first.target)


def _draw_sentence(rng: random.Random, targets: Collection[str]) -> Sentence:
    """The phrasebook's own direction, unless others are wanted."""
    pair = _load_corpus().draw(rng)
    target = rng.choice(sorted(targets)) if targets else pair.target_language
    return Sentence(pair.source, pair.source_language, target)


@cache
def _load_corpus() -> Corpus:
    return Corpus(phrasebook.load())
