"""The translation task: translates the sentence in each row, with its own languages,
beam size and number of alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from contract.languages import LANGUAGES
from handlers.base import ModelConfig, Outcome, Result, Row, TaskError, TaskHandler
from handlers.engine.directories import read_settings
from handlers.engine.errors import OutOfMemory, TooLate
from handlers.engine.translation.batching import Answer, Batcher
from handlers.engine.translation.loading import is_guarded, load_engine
from handlers.engine.translation.m2m100 import Decoding, Sentence

#: What an archive's `model-config.yaml` may leave out: tokens in a pack, padding counted (0
#: runs a batch as it came), and the most that a row may ask for.
_DEFAULTS = {"max_batch_tokens": 4096, "max_beam_size": 8, "max_alternatives": 5}


class TranslationHandler(TaskHandler[Sentence]):
    """Serves one M2M100 for the target languages that the map gives it."""

    def setup(self, config: ModelConfig) -> None:
        options = _DEFAULTS | dict(config.options)
        self.languages: list[str] = options["languages"]
        self.max_beam_size: int = options["max_beam_size"]
        self.max_alternatives: int = options["max_alternatives"]
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
        self.batcher = Batcher(
            self.engine,
            max_tokens=options["max_batch_tokens"],
            is_guarded=is_guarded(options["engine"], settings),
        )
        warm_up = self.run([Sentence("1", "en", self.languages[0])], math.inf)
        (result,) = warm_up.results
        if isinstance(result, TaskError):
            raise RuntimeError(result.detail)

    def parse(self, row: Row) -> Sentence:
        return self._read(row.read_json())

    def run(self, items: Sequence[Sentence], deadline: float) -> Outcome:
        answers, statistics = self.batcher.translate(items, deadline=deadline)
        results = [
            self._answer(item, answer)
            for item, answer in zip(items, answers, strict=True)
        ]
        counts = {
            "BabelgateTokens": statistics.tokens,
            "BabelgatePaddingTokens": statistics.padding_tokens,
            "BabelgateDeduplicatedRows": statistics.deduplicated,
            "BabelgateRedecodedRows": statistics.redecoded,
            "BabelgateHalvedPacks": statistics.halved,
        }
        return Outcome(results, counts)

    def _read(self, row: Any) -> Sentence:
        if not isinstance(row, dict):
            raise _invalid("expected a JSON object")
        for field in ("src_lang", "src_text"):
            if not isinstance(row.get(field), str):
                raise _invalid(f"{field}: expected a string")
        if not _is_unicode(row["src_text"]):
            raise _invalid("src_text: holds half of a surrogate pair")
        only = self.languages[0] if len(self.languages) == 1 else None
        source, target = row["src_lang"], row.get("tgt_lang", only)
        if source not in self.sources:
            raise TaskError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "unknown-language",
                f"src_lang: {source[:20]!r} is not served; "
                f"expected one of {', '.join(self.sources)}",
            )
        if target not in self.languages:
            raise _invalid(f"tgt_lang: this model serves {', '.join(self.languages)}")
        decoding = self._read_decoding(row)
        self._check_length(row["src_text"], source)
        return Sentence(row["src_text"], source, target, decoding)

    def _read_decoding(self, row: Mapping[str, Any]) -> Decoding:
        usual = min(Decoding.beam_size, self.max_beam_size)
        beam_size = row.get("beam_size", usual)
        alternatives = row.get("alternatives", Decoding.alternatives)
        _check_number("beam_size", beam_size, 1, self.max_beam_size)
        _check_number("alternatives", alternatives, 0, self.max_alternatives)
        return Decoding(beam_size, alternatives)

    def _check_length(self, text: str, source: str) -> None:
        tokens = len(self.engine.tokenizer.encode(text, source))
        limit = self.engine.max_tokens
        if tokens > limit:
            raise TaskError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "text-too-long",
                f"src_text has {tokens} tokens, this model takes {limit}: send less at once.",
                tokens=tokens,
                limit=limit,
            )

    def _answer(self, item: Sentence, answer: Answer) -> Result:
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


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(detail: str) -> TaskError:
    return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail)


def _check_number(field: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:  # True is an int, too
        raise _invalid(f"{field}: expected a whole number from {least} to {most}")
