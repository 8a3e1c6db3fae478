"""The translation task: each row has its own languages, beam size and alternatives."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

from contract.languages import LANGUAGES
from handlers.base import (
    ModelConfig,
    Outcome,
    Result,
    Row,
    TaskError,
    TaskHandler,
    invalid,
)
from handlers.engine.directories import digest_files, read_settings
from handlers.engine.errors import OutOfMemory, TooLate
from handlers.engine.translation.batching import Answer, Batcher
from handlers.engine.translation.loading import is_guarded, load_engine
from handlers.engine.translation.m2m100 import Decoding, Sentence
from handlers.schemas import limit_row

_CODE = (Path(__file__), *sorted(Path(__file__).parent.glob("engine/translation/*.py")))
#: A part of each model's digest: other code may answer otherwise.
_CODE_DIGEST = sha256(b"".join(file.read_bytes() for file in _CODE)).hexdigest()
_DIGEST_DIGITS = 16


class TranslationHandler(TaskHandler[Sentence]):
    """Serves one M2M100 for the target languages that the map gives it."""

    def load_model(self, config: ModelConfig) -> None:
        options = config.options
        self.languages: list[str] = options["languages"]
        self.schema = limit_row(
            self.languages,
            max_beam_size=options["max_beam_size"],
            max_alternatives=options["max_alternatives"],
        )
        settings = read_settings(config.directory)
        self.sources: list[str] = settings.get("languages", LANGUAGES)
        self.min_score: float = settings.get("min_score", float("-inf"))
        self.warning: str = settings.get("warning", "")
        self.engine = load_engine(
            options["engine"],
            config.directory,
            device=config.device,
            index=config.device_index,
            compute_type=options["compute_type"],
        )
        self.digest = _digest(config)
        self.batcher = Batcher(
            self.engine,
            max_tokens=options["max_batch_tokens"],
            is_guarded=is_guarded(options["engine"], settings),
        )
        warm_up = self.infer([Sentence("1", "en", self.languages[0])], math.inf)
        (result,) = warm_up.results
        if isinstance(result, TaskError):
            raise RuntimeError(result.detail)

    def preprocess(self, row: Row) -> Sentence:
        wanted = row.read(self.schema)
        self._check_languages(wanted.src_lang, wanted.tgt_lang)
        decoding = Decoding(wanted.beam_size, wanted.alternatives)
        return Sentence(wanted.src_text, wanted.src_lang, wanted.tgt_lang, decoding)

    def infer(self, items: Sequence[Sentence], deadline: float) -> Outcome:
        began = time.perf_counter()
        items = self.engine.tokenizer.tokenize(items)
        errors = [self._find_length_error(item) for item in items]
        fitting = [i for i, error in zip(items, errors, strict=True) if not error]
        answers, counts = self.batcher.translate(fitting, deadline=deadline)
        answered = iter(answers)
        compute_ms = round(1000 * (time.perf_counter() - began), 1)
        results = [
            error or self._write_result(item, next(answered), compute_ms)
            for item, error in zip(items, errors, strict=True)
        ]
        return Outcome(results, counts)

    def _check_languages(self, source: str, target: str) -> None:
        if source not in self.sources:
            raise TaskError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "unknown-language",
                f"src_lang: {source[:20]!r} is not served; "
                f"expected one of {', '.join(self.sources)}",
            )
        if target not in self.languages:
            raise invalid(f"tgt_lang: this model serves {', '.join(self.languages)}")

    def _find_length_error(self, item: Sentence) -> TaskError | None:
        tokens, limit = len(item.tokens), self.engine.max_tokens
        if tokens <= limit:
            return None
        return TaskError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "text-too-long",
            f"src_text has {tokens} tokens, this model takes {limit}: send less at once.",
            tokens=tokens,
            limit=limit,
        )

    def _write_result(
        self, item: Sentence, answer: Answer, compute_ms: float
    ) -> Result:
        if isinstance(answer, OutOfMemory):
            return TaskError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "out-of-memory",
                "This text does not fit into the device's memory, even alone: "
                "send less at once.",
            )
        if isinstance(answer, TooLate):
            return TaskError(
                HTTPStatus.GATEWAY_TIMEOUT,
                "deadline",
                "The deadline passed before the row was translated.",
            )
        result: dict[str, Any] = {
            "translated": answer.text,
            "score": round(answer.score, 4),
            "model": self.digest,
            "compute_ms": compute_ms,
        }
        if item.decoding.alternatives:
            result["alternatives"] = [
                {"text": other.text, "score": round(other.score, 4)}
                for other in answer.alternatives
            ]
        warnings = [answer.fault.value] if answer.fault else []
        if not answer.score >= self.min_score:  # NaN is not a good score
            warnings.append(self.warning)
        if warnings:
            result["warnings"] = warnings
        return result


def _digest(config: ModelConfig) -> str:
    """The digest of a model's weights and vocabulary, of its engine, and of the options that
    change its answers."""
    options = config.options["engine"], config.options["compute_type"], config.device
    content = repr((options, digest_files(config.directory), _CODE_DIGEST))
    return sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]
