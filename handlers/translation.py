"""The translation task: `{"src_lang", "src_text", "tgt_lang"}` in, `{"translated", "score"}`
out, with `warnings` where the model itself says that its answer is doubtful.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from handlers.base import ModelConfig, TaskError, TaskHandler
from handlers.engine.m2m100 import (
    LANGUAGES,
    Engine,
    Sentence,
    Translation,
    read_settings,
)


class TranslationHandler(TaskHandler[Sentence]):
    """Serves one M2M100 for the target languages that the map gives it."""

    def setup(self, config: ModelConfig) -> None:
        self.languages: list[str] = config.options["languages"]
        settings = read_settings(config.directory)
        self.sources: list[str] = settings.get("languages", LANGUAGES)
        self.min_score: float = settings.get("min_score", float("-inf"))
        self.warning: str = settings.get("warning", "")
        self.engine = _load_engine(config)
        self.run([Sentence("1", "en", self.languages[0])])

    def parse(self, row: Any) -> Sentence:
        if not isinstance(row, dict):
            raise _invalid("expected a JSON object")
        for field in ("src_lang", "src_text"):
            if not isinstance(row.get(field), str):
                raise _invalid(f"{field}: expected a string")
        if not _is_unicode(row["src_text"]):
            raise _invalid("src_text: holds half of a surrogate pair")
        source, target = row["src_lang"], row.get("tgt_lang", self.languages[0])
        if source not in self.sources:
            raise TaskError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "unknown-language",
                f"src_lang: {source[:20]!r} is not served; "
                f"expected one of {', '.join(self.sources)}",
            )
        if target not in self.languages:
            raise _invalid(f"tgt_lang: this model serves {', '.join(self.languages)}")
        self._check_length(row["src_text"], source)
        return Sentence(row["src_text"], source, target)

    def run(self, items: Sequence[Sentence]) -> list[dict[str, Any] | TaskError]:
        return [self._answer(result) for result in self.engine.translate(items)]

    def _check_length(self, text: str, source: str) -> None:
        tokens = len(self.engine.tokenizer.encode(text, source))
        limit = self.engine.max_tokens
        if tokens > limit:
            raise TaskError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "text-too-long",
                f"src_text has {tokens} tokens, this model takes {limit}: send less at once.",
            )

    def _answer(self, translation: Translation) -> dict[str, Any]:
        answer = {"translated": translation.text, "score": round(translation.score, 4)}
        if not translation.score >= self.min_score:  # NaN is not a good score
            return answer | {"warnings": [self.warning]}
        return answer


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(detail: str) -> TaskError:
    return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail)


def _load_engine(config: ModelConfig) -> Engine:
    """Imports only the engine that is asked for: without Transformers a worker starts
    sooner and is smaller."""
    engine: Callable[..., Engine]
    if config.options["engine"] == "transformers":
        from handlers.engine.transformers import TransformersEngine as engine
    else:
        from handlers.engine.ctranslate2 import CTranslate2Engine as engine
    return engine(
        config.directory,
        device=config.device,
        index=config.device_index,
        compute_type=config.options["compute_type"],
    )
