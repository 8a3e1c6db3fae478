"""An engine without a model that returns each text after a known time. It measures the
cost of serving, and checks the benchmarks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handlers.engine.directories import read_settings
from handlers.engine.translation.m2m100 import Sentence, Tokenizer, Translation


class EchoEngine:
    """Reads the tokenizer of a model directory. The `echo` object of its `babelgate.json`
    says how many milliseconds a batch (`batch_ms`), each of its rows (`row_ms`) and each of
    their words (`word_ms`) take; 0 by default."""

    translators = 1

    def __init__(self, directory: Path, **_: Any) -> None:
        settings = read_settings(directory)
        cost = settings.get("echo", {})
        self.tokenizer = Tokenizer(directory)
        self.max_tokens: int = settings.get("max_tokens", 1024)
        self._batch_s = cost.get("batch_ms", 0) / 1000
        self._row_s = cost.get("row_ms", 0) / 1000
        self._word_s = cost.get("word_ms", 0) / 1000

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """The sentences' own texts, in order."""
        words = sum(len(sentence.text.split()) for sentence in sentences)
        time.sleep(self._batch_s + self._row_s * len(sentences) + self._word_s * words)
        return [Translation(sentence.text, score=0.0) for sentence in sentences]
