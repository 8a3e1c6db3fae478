"""The translation task: each row has its own languages, beam size and alternatives."""

import math
from collections.abc import Sequence
from typing import Any

from handlers.base import (
    ModelConfig,
    Outcome,
    Result,
    Row,
    TaskError,
    TaskHandler,
    digest_model,
    invalid,
)
from handlers.engine.directories import read_settings
from handlers.engine.errors import OutOfMemory, TooLate
from handlers.engine.translation.batching import Answer, Batcher
from handlers.engine.translation.engine import Decoding, Sentence
from handlers.engine.translation.families import list_languages
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.quality import GENERIC, estimate, gather
from handlers.schemas import limit_row


class TranslationHandler(TaskHandler[Sentence]):
    """The handler of one model, for the target languages that the map assigns to it."""

    def load_model(self, config: ModelConfig) -> None:
        options = config.options
        self.languages: list[str] = options["languages"]
        self.schema = limit_row(
            self.languages,
            max_beam_size=options["max_beam_size"],
            max_alternatives=options["max_alternatives"],
        )
        self.engine = load_engine(
            options["engine"],
            config.directory,
            gpu=config.gpu,
            compute_type=options["compute_type"],
        )
        settings = read_settings(config.directory)
        self.sources = list_languages(config.directory).sources
        self.min_score: float = settings.get("min_score", float("-inf"))
        self.warning: str = settings.get("warning", "")
        self.weights = GENERIC._replace(**settings.get("quality", {}))
        self.digest = digest_model(config)
        self.batcher = Batcher(
            self.engine,
            max_tokens=options["max_batch_tokens"],
            # The guard would flag every answer of `echo`, which does not translate.
            is_guarded=settings.get("guard", options["engine"] != "echo"),
        )
        source = "en" if "en" in self.sources else self.sources[0]
        warm_up = self.infer([Sentence("1", source, self.languages[0])], math.inf)
        (result,) = warm_up.results
        if isinstance(result, TaskError):
            raise RuntimeError(result.detail)

    def preprocess(self, row: Row) -> Sentence:
        wanted = row.read(self.schema)
        self._check_languages(wanted.src_lang, wanted.tgt_lang)
        decoding = Decoding(wanted.beam_size, wanted.alternatives)
        return Sentence(wanted.src_text, wanted.src_lang, wanted.tgt_lang, decoding)

    def infer(self, items: Sequence[Sentence], deadline: float) -> Outcome:
        items = self.engine.tokenizer.tokenize(items)
        errors = [self._find_length_error(item) for item in items]
        fitting = [i for i, error in zip(items, errors, strict=True) if not error]
        answers, counts = self.batcher.translate(fitting, deadline=deadline)
        answered = iter(answers)
        results = [
            error or self._write_result(item, next(answered))
            for item, error in zip(items, errors, strict=True)
        ]
        return Outcome(results, counts)

    def _check_languages(self, source: str, target: str) -> None:
        if source not in self.sources:
            raise TaskError(
                "unknown-language",
                f"src_lang: {source[:20]!r} is not served; "
                f"expected one of {', '.join(self.sources)}",
            )
        if target not in self.languages:
            raise invalid(f"tgt_lang: this model serves {', '.join(self.languages)}")

    def _find_length_error(self, item: Sentence) -> TaskError | None:
        tokens = len(item.tokens)
        limit = self.engine.max_tokens
        if tokens <= limit:
            return None
        return TaskError(
            "text-too-long",
            f"src_text has {tokens} tokens, this model accepts {limit}: send less at once.",
            tokens=tokens,
            limit=limit,
        )

    def _write_result(self, item: Sentence, answer: Answer) -> Result:
        if isinstance(answer, OutOfMemory):
            return TaskError(
                "out-of-memory",
                "This text does not fit into the device's memory, even alone: "
                "send less at once.",
            )
        if isinstance(answer, TooLate):
            return TaskError(
                "deadline", "The deadline passed before the row was translated."
            )
        result: dict[str, Any] = {
            "translated": answer.text,
            "score": round(answer.score, 4),
            "quality": round(estimate(gather(item, answer), self.weights), 4),
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
