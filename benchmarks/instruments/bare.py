"""Measures an engine alone. It works as in a worker, but judges no answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import catalog
from benchmarks.instruments.passes import Pass, Runner, Unsupported
from catalog import checkpoint
from catalog.sections.translation import ENGINES
from handlers.engine.translation import batching
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.m2m100 import Engine, Sentence

#: Tokens in a pack; the map's default.
MAX_TOKENS = catalog.TranslationSection().max_batch_tokens
RANDOM = "418M"
_TRANSFORMERS_TYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class EngineSubject:
    """A model and how it runs; its items are sentences."""

    model: Path
    engine: str
    compute_type: str
    device: str = "cpu"

    @property
    def label(self) -> tuple[str, ...]:
        return self.engine, self.compute_type

    def prepare(self, cache: Path) -> Path:
        """The directory to load, converted into `cache` if necessary. Raises Unsupported."""
        if self.engine not in ENGINES:
            raise Unsupported(f"there is no engine {self.engine!r}")
        if (
            self.engine == "transformers"
            and self.compute_type not in _TRANSFORMERS_TYPES
        ):
            raise Unsupported(f"Transformers has no {self.compute_type}")
        if self.engine != "ctranslate2":
            return self.model
        import ctranslate2

        from handlers.engine.translation.conversion import convert

        known = ctranslate2.get_supported_compute_types(self.device)
        if self.compute_type not in known:
            raise Unsupported(
                f"CTranslate2 has no {self.compute_type} on this {self.device}"
            )
        return convert(self.model, cache / "ctranslate2", self.compute_type)

    def load(self, directory: Path) -> Runner:
        """Load the engine on all its translators, with what `prepare` gave."""
        device, kind = self.device, self.compute_type
        engine = load_engine(self.engine, directory, device=device, compute_type=kind)
        return partial(_run_engine, engine)


def _run_engine(engine: Engine, batches: Sequence[Sequence[Sentence]]) -> Pass:
    """Time the batches. Tokens are counted afterwards."""
    seconds = translate(engine, batches)
    tokenize = engine.tokenizer.tokenize
    return Pass(seconds, sum(len(s.tokens) for one in batches for s in tokenize(one)))


def find_model(name: str) -> Path:
    """The directory of a path, a hub name, or `418M`: random weights. Raises ModelError."""
    cache = checkpoint.default_cache()
    if name == RANDOM:
        from benchmarks.instruments import random_model

        return random_model.find(cache / "benchmarks")
    return checkpoint.fetch(name, cache)


def translate(
    engine: Engine, batches: Sequence[Sequence[Sentence]], threads: int | None = None
) -> float:
    """Seconds for these batches, one after the other, on these threads or all translators."""
    threads = threads or engine.translators
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for batch in map(engine.tokenizer.tokenize, batches):
            packs = batching.spread(
                [len(sentence.tokens) for sentence in batch],
                max_tokens=MAX_TOKENS,
                translators=threads,
            )
            parts = ([batch[row] for row in rows] for rows in packs)
            list(pool.map(engine.translate, parts))
    return time.perf_counter() - began
