"""Translates many texts together, without a server: a caller with a model is asked for all
their sentences at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from text import composition, xml_runs
from text.composition import Result, TranslatedText
from text.document import Document
from text.errors import NotWellFormed, SentenceRefused, TextError
from text.langid import UNDETERMINED, Guess, Identifier
from text.options import TranslationRequest
from text.reading import collect, scan

#: A sentence as the model gets it, after its language.
_Sentence = tuple[str, str]
_Answers = dict[_Sentence, dict[str, Any] | SentenceRefused]
_Found = TypeVar("_Found")
#: Asks for sentences, again and again until it has its result.
_Translation = Generator[Iterable[_Sentence], _Answers, _Found]


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
        sentences: dict[_Sentence, None] = {}
        for place, translation in [*running.items()]:
            try:
                sentences |= dict.fromkeys(translation.send(answers))
            except StopIteration as end:
                found[place] = end.value
                del running[place]
            except TextError as error:
                found[place] = error
                del running[place]
        rows = [composition.describe_row(request, *each) for each in sentences]
        answers = dict(zip(sentences, ask(rows) if rows else (), strict=True))
    return [found[place] for place in range(len(texts))]


def _translate(
    request: TranslationRequest, identifier: Identifier
) -> _Translation[TranslatedText]:
    """Raises TextError."""
    source, guess, document = _read(request, identifier)
    if document is None:
        return composition.leave(request.texts[0], source, guess)
    result = yield from _translate_document(document, (source, request.target))
    return composition.answer(document, result, guess)


def _read(
    request: TranslationRequest, identifier: Identifier
) -> tuple[str, Guess | None, Document | None]:
    """The language of a request's text, and what is to be translated."""
    (text,), guess = request.texts, None
    try:
        if request.tags and request.tags.is_xml:
            xml_runs.check(text)
        if not request.source:
            guess = composition.identify(identifier, text, request.tags)
        source = request.source or (guess.language if guess else UNDETERMINED)
        _, job = composition.plan_reading(request, [source], sys.maxsize)
        return source, guess, next(collect(job, scan(job)), None)
    except NotWellFormed as error:
        said = f"src_text: expected well-formed XML, found: {error}"
        raise TextError(said) from error
    except Exception as error:  # its message may quote the text
        raise TextError("This text could not be read.") from error


def _translate_document(
    document: Document, pair: tuple[str, str]
) -> _Translation[Result]:
    sentences = [
        (pair[0], composition.prepare(segment, pair[0]))
        for segment in document.segments
    ]
    answers = yield sentences
    results = []
    for segment, sentence in zip(document.segments, sentences, strict=True):
        found: Result | Document | None
        answer = answers[sentence]
        if isinstance(answer, SentenceRefused):
            found = composition.divide_further(segment, document.format, answer.members)
            if found is None:
                raise answer
        else:
            found = composition.compose(segment, document.format, pair, answer)
        if isinstance(found, Document):
            found = yield from _translate_document(found, pair)
        results.append(found)
    return composition.join(document, results)
