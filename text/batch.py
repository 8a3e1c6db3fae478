"""Translates many texts together, without a server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from text import composition, markup_runs
from text.composition import (
    PlannedSentence,
    Result,
    Row,
    TranslatedText,
    TranslationPlan,
)
from text.document import Document, collect, scan
from text.errors import NotWellFormed, SentenceRefused, TextError
from text.langid import Identifier
from text.options import TranslationRequest

_Answers = dict[Row, dict[str, Any] | SentenceRefused]
_Found = TypeVar("_Found")
#: Asks for rows, again and again until it has its result.
_Asking = Generator[Iterable[Row], _Answers, _Found]


def translate_batch(
    texts: Sequence[str],
    request: TranslationRequest,
    identifier: Identifier,
    ask: Callable[
        [Sequence[dict[str, Any]]], Sequence[dict[str, Any] | SentenceRefused]
    ],
) -> list[TranslatedText | TextError]:
    """Answer each text as `POST /translate` does. `ask` gets the rows of all sentences,
    then those of all parts that the model could not take as a whole, and so on."""
    found: dict[int, TranslatedText | TextError] = {}
    running = {
        place: _translate(replace(request, texts=(text,)), identifier)
        for place, text in enumerate(texts)
    }
    answers: Any = None
    while running:
        sentences: dict[Row, None] = {}
        for place, translation in [*running.items()]:
            try:
                sentences |= dict.fromkeys(translation.send(answers))
            except StopIteration as end:
                found[place] = end.value
                del running[place]
            except TextError as error:
                found[place] = error
                del running[place]
        rows = [composition.describe_row(request, each) for each in sentences]
        answers = dict(zip(sentences, ask(rows) if rows else (), strict=True))
    return [found[place] for place in range(len(texts))]


def _translate(
    request: TranslationRequest, identifier: Identifier
) -> _Asking[TranslatedText]:
    """Raises TextError."""
    plan, found = _read(request, identifier), None
    if read := plan.find(0):
        found = yield from _translate_document(*read, request.target)
    return plan.finish(0, found)


def _read(request: TranslationRequest, identifier: Identifier) -> TranslationPlan:
    """The plan of a request for one text, which is read."""
    (text,), guess = request.texts, None
    try:
        if request.tags and request.tags.is_xml:
            markup_runs.check_xml(text)
        if not request.source:
            guess = composition.identify(identifier, text, request.tags)
        plan = TranslationPlan(request, [guess], sys.maxsize)
        plan.read(collect(plan.job, scan(plan.job)))
        return plan
    except NotWellFormed as error:
        said = f"src_text: expected well-formed XML, found: {error}"
        raise TextError(said) from error
    except Exception as error:  # its message may quote the text
        raise TextError("This text could not be read.") from error


def _translate_document(
    document: Document, sentences: Sequence[PlannedSentence], target: str
) -> _Asking[Result]:
    answers = yield [sentence.row for sentence in sentences]
    results = []
    for sentence in sentences:
        found: Result | Document | None
        answer = answers[sentence.row]
        if isinstance(answer, SentenceRefused):
            found = composition.divide_further(
                sentence.segment, document.format, answer.members
            )
            if found is None:
                raise answer
        else:
            found = composition.compose(sentence, document.format, target, answer)
        if isinstance(found, Document):
            parts = composition.list_sentences(found, sentence.source)
            found = yield from _translate_document(found, parts, target)
        results.append(found)
    return composition.join(document, results)
