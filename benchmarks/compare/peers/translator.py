"""The translator that every peer serves: our workers' engine, packing and guard."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlers.engine.directories import read_settings
from handlers.engine.translation.batching import Batcher
from handlers.engine.translation.engine import Sentence, Translation
from handlers.engine.translation.families import list_languages
from handlers.engine.translation.loading import is_guarded, load_engine

_FIELDS = ("src_lang", "src_text", "tgt_lang")


@dataclass(frozen=True)
class PeerOptions:
    """A model, how it is run and how its requests become batches: the one argument of a
    peer's server, as JSON."""

    #: The directory that the engine loads.
    model: str
    host: str
    port: int
    #: The most requests in a batch, and how long it waits for them.
    batch_size: int
    wait_s: float
    engine: str = "ctranslate2"
    compute_type: str = "int8"
    #: The most tokens that are translated at once, as in our map.
    max_batch_tokens: int = 4096


def read_options(argument: str | None = None) -> PeerOptions:
    """The options of an argument, or of the command line."""
    return PeerOptions(**json.loads(argument or sys.argv[1]))


class PeerTranslator:
    """One loaded model. Batches come one at a time."""

    def __init__(self, options: PeerOptions) -> None:
        model = Path(options.model)
        settings = read_settings(model)
        self._languages = list_languages(model)
        self._engine = load_engine(
            options.engine, model, device="cpu", compute_type=options.compute_type
        )
        self._batcher = Batcher(
            self._engine,
            max_tokens=options.max_batch_tokens,
            is_guarded=is_guarded(options.engine, settings),
        )

    def parse(self, body: Any) -> Sentence:
        """The sentence that a request's body asks for. Raises ValueError with what was
        expected."""
        if not isinstance(body, dict):
            raise ValueError("expected a JSON object")
        if not all(isinstance(body.get(field), str) for field in _FIELDS):
            raise ValueError(f"expected strings: {', '.join(_FIELDS)}")
        source, text, target = (body[field] for field in _FIELDS)
        known = self._languages
        if source not in known.sources or target not in known.targets:
            raise ValueError("src_lang or tgt_lang is not served")
        tokens = self._engine.tokenizer.encode(text, source, target)
        if len(tokens) > self._engine.max_tokens:
            raise ValueError("src_text is too long")
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
