"""Translates many texts at once on a loaded model, and each as `POST /translate` does: all
their sentences go to the model together.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clients.translator import Reply
from gateway.errors import Problem
from handlers.base import Row, TaskError, TaskHandler
from text import composition, xml_runs
from text.composition import Result, TranslatedText
from text.document import Document, Format, Segment
from text.errors import NotWellFormed
from text.langid import UNDETERMINED, Guess, Identifier
from text.options import TranslationRequest
from text.reading import collect, scan

_UNREADABLE = Problem("This text could not be read.")


@dataclass(frozen=True)
class _Text:
    """A text that was read, or why it was not."""

    text: str
    source: str
    guess: Guess | None
    document: Document | Problem | None


@dataclass(frozen=True)
class BatchTranslator:
    """A model, and how to translate with it. Safe to share among threads."""

    handler: TaskHandler[Any]
    identifier: Identifier
    #: Its texts are none.
    wanted: TranslationRequest
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def translate(self, texts: Sequence[str]) -> list[Reply]:
        """A reply for each text; what is wrong with one is its own error."""
        read = [self._read(text) for text in texts]
        found = [
            (t.document, t.source) for t in read if isinstance(t.document, Document)
        ]
        results = iter(self._translate(found))
        return [
            _reply(
                each,
                next(results) if isinstance(each.document, Document) else each.document,
            )
            for each in read
        ]

    def _read(self, text: str) -> _Text:
        guess = None
        request = replace(self.wanted, texts=(text,))
        try:
            if request.tags and request.tags.is_xml:
                xml_runs.check(text)
            if not self.wanted.source:
                guess = composition.identify(self.identifier, text, self.wanted.tags)
            source = self.wanted.source or (guess.language if guess else UNDETERMINED)
            _, job = composition.plan_reading(request, [source], sys.maxsize)
            document = next(collect(job, scan(job)), None)
        except NotWellFormed as error:
            problem = Problem(f"src_text: expected well-formed XML, found: {error}")
            return _Text(text, UNDETERMINED, guess, problem)
        except Exception:  # its message may quote the text
            return _Text(text, UNDETERMINED, guess, _UNREADABLE)
        return _Text(text, source, guess, document)

    def _translate(
        self, documents: Sequence[tuple[Document, str]]
    ) -> list[Result | Problem]:
        """The documents, each with its language. All sentences are asked for at once, then
        all parts of those that the model could not take as a whole, and so on."""
        if not documents:
            return []
        sentences = [
            (segment, document.format, source)
            for document, source in documents
            for segment in document.segments
        ]
        rows = dict.fromkeys(
            (s, composition.prepare(seg, s)) for seg, _, s in sentences
        )
        answers = dict(zip(rows, self._ask(list(rows)), strict=True))
        outcomes = [
            self._compose(seg, form, s, answers[s, composition.prepare(seg, s)])
            for seg, form, s in sentences
        ]
        parts = [
            (outcome, source)
            for outcome, (*_, source) in zip(outcomes, sentences, strict=True)
            if isinstance(outcome, Document)
        ]
        further = iter(self._translate(parts))
        settled = iter(
            [next(further) if isinstance(o, Document) else o for o in outcomes]
        )
        return [
            _join(document, [next(settled) for _ in document.segments])
            for document, _ in documents
        ]

    def _ask(self, rows: Sequence[tuple[str, str]]) -> list[dict[str, Any] | TaskError]:
        """The model's answers to sentences, each with its language."""
        bodies = (composition.describe_row(self.wanted, *row) for row in rows)
        asked = [Row(json.dumps(body).encode()) for body in bodies]
        with self._turn:
            return self.handler.answer(asked).results if asked else []

    def _compose(
        self,
        segment: Segment,
        format: Format,
        source: str,
        answer: dict[str, Any] | TaskError,
    ) -> Result | Document | Problem:
        if not isinstance(answer, TaskError):
            pair = source, self.wanted.target
            return composition.compose(segment, format, pair, answer)
        parts = composition.divide_further(segment, format, answer.members)
        return parts or Problem(answer.detail)


def _join(document: Document, results: Sequence[Result | Problem]) -> Result | Problem:
    """One sentence without a translation is one too many."""
    good: list[Result] = []
    for result in results:
        if isinstance(result, Problem):
            return result
        good.append(result)
    return composition.join(document, good)


def _reply(text: _Text, result: Result | Problem | None) -> Reply:
    if isinstance(result, Problem):
        return Reply(None, error=result.detail)
    if result is None or not isinstance(text.document, Document):
        return _show(composition.leave(text.text, text.source, text.guess))
    return _show(composition.answer(text.document, result, text.guess))


def _show(answer: TranslatedText) -> Reply:
    warning = answer.warnings[0] if answer.warnings else None
    return Reply(answer.renderings[0].text, warning=warning)
