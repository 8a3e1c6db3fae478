"""An engine that answers at once, and TorchServe's own context around a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ts.context import (  # type: ignore[import-untyped]
    Context,
    RequestProcessor,
)

from handlers.base import TaskHandler
from handlers.engine.m2m100 import Sentence, Translation, language_token


class FakeTokenizer:
    """A token per word."""

    def encode(self, text: str, language: str) -> list[str]:
        return [language_token(language), *text.split(), "</s>"]


@dataclass
class FakeEngine:
    """Translates `text` to `[ko] text`; what it breaks on, it quotes in its error."""

    max_tokens: int = 10
    scores: Mapping[str, float] = field(default_factory=dict)
    breaks_on: str = ""
    tokenizer: FakeTokenizer = field(default_factory=FakeTokenizer)
    #: The texts of every batch that it was given.
    batches: list[list[str]] = field(default_factory=list)

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        texts = [sentence.text for sentence in sentences]
        self.batches.append(texts)
        if self.breaks_on and self.breaks_on in texts:
            raise RuntimeError(f"CUDA error in {texts}")
        return [
            Translation(f"[{s.target}] {s.text}", self.scores.get(s.text, -0.1))
            for s in sentences
        ]


@dataclass(frozen=True)
class Answer:
    """What one row's client gets."""

    status: int
    phrase: str
    content_type: str | None
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body.decode("utf-8"))


def make_context(
    rows: int = 1,
    *,
    headers: Mapping[int, Mapping[str, str]] | None = None,
    config: Mapping[str, Any] | None = None,
    gpu: int | None = None,
) -> Context:
    """What TorchServe gives a handler, for a batch whose rows have these headers."""
    context = Context(
        "ko", "/store/ko", {}, 64, gpu, "0.12.0", model_yaml_config=config
    )
    context.request_processor = [
        RequestProcessor(dict((headers or {}).get(i, {}))) for i in range(rows)
    ]
    return context


def ask(
    handler: TaskHandler[Any],
    bodies: Sequence[Any],
    headers: Mapping[int, Mapping[str, str]] | None = None,
) -> list[Answer]:
    """Gives a handler a batch of bodies, and reads back what TorchServe would send."""
    context = make_context(len(bodies), headers=headers)
    answers = handler.handle([{"body": body} for body in bodies], context)
    assert len(answers) == len(bodies)
    return [
        Answer(
            status=context.get_response_status(i)[0],
            phrase=context.get_response_status(i)[1] or "",
            content_type=context.get_response_content_type(i),
            body=body,
        )
        for i, body in enumerate(answers)
    ]
