"""Loads an engine by its name."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from handlers.engine.directories import read_settings
from handlers.engine.translation.engine import Engine, Sentence, Translation
from handlers.engine.translation.families import find_family


def load_engine(
    name: str, directory: Path, *, gpu: int | None = None, compute_type: str
) -> Engine:
    """Load the engine `transformers`, `echo` or `ctranslate2`, and import only that one:
    without Transformers, a worker starts faster and needs less memory."""
    engine: Callable[..., Engine]
    if name == "transformers":
        from handlers.engine.translation.transformers import (
            TransformersEngine as engine,
        )
    elif name == "echo":
        engine = EchoEngine
    else:
        from handlers.engine.translation.ctranslate2 import CTranslate2Engine as engine
    return engine(directory, gpu=gpu, compute_type=compute_type)


class EchoEngine:
    """An engine without a model that returns each text after a known time, to measure the cost
    of serving and to check the benchmarks.

    It uses the tokenizer of a model directory. The `echo` object of its `babelgate.json` sets
    the milliseconds per batch (`batch_ms`), row (`row_ms`) and word (`word_ms`); 0 by default.
    """

    translators = 1

    def __init__(self, directory: Path, **_: Any) -> None:
        settings = read_settings(directory)
        cost = settings.get("echo", {})
        self.tokenizer = find_family(directory).load_tokenizer(directory)
        self.max_tokens: int = settings.get("max_tokens", 1024)
        self._batch_s = cost.get("batch_ms", 0) / 1000
        self._row_s = cost.get("row_ms", 0) / 1000
        self._word_s = cost.get("word_ms", 0) / 1000

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        words = sum(len(sentence.text.split()) for sentence in sentences)
        time.sleep(self._batch_s + self._row_s * len(sentences) + self._word_s * words)
        return [Translation(sentence.text, score=0.0) for sentence in sentences]
