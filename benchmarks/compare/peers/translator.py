"""What every peer serves: our workers' engine, packing and guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers.options import Options
from contract.languages import LANGUAGES
from handlers.engine.directories import read_settings
from handlers.engine.translation.batching import Batcher
from handlers.engine.translation.loading import is_guarded, load_engine
from handlers.engine.translation.m2m100 import Sentence, Translation

_FIELDS = ("src_lang", "src_text", "tgt_lang")


class Refused(ValueError):
    """A request that cannot be translated; the message says what was expected."""


class Translator:
    """One loaded model. Batches come one at a time."""

    def __init__(self, options: Options) -> None:
        settings = read_settings(options.model)
        self._languages = frozenset(settings.get("languages", LANGUAGES))
        self._engine = load_engine(
            options.engine,
            options.model,
            device="cpu",
            compute_type=options.compute_type,
        )
        self._batcher = Batcher(
            self._engine,
            max_tokens=options.max_batch_tokens,
            is_guarded=is_guarded(options.engine, settings),
        )

    def parse(self, body: Any) -> Sentence:
        """The sentence that a request's body asks for. Raises Refused."""
        if not isinstance(body, dict):
            raise Refused("expected a JSON object")
        if not all(isinstance(body.get(field), str) for field in _FIELDS):
            raise Refused(f"expected strings: {', '.join(_FIELDS)}")
        source, text, target = (body[field] for field in _FIELDS)
        if not {source, target} <= self._languages:
            raise Refused("src_lang or tgt_lang is not served")
        if len(self._engine.tokenizer.encode(text, source)) > self._engine.max_tokens:
            raise Refused("src_text is too long")
        return Sentence(text, source, target)

    def translate(self, sentences: Sequence[Sentence]) -> list[str]:
        """One text per sentence, in order. Raises EngineError."""
        answers, _ = self._batcher.translate(sentences)
        texts = []
        for answer in answers:
            if not isinstance(answer, Translation):
                raise answer
            texts.append(answer.text)
        return texts
