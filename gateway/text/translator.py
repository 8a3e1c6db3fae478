"""Translates a request's texts: splits each into sentences, sends a limited number of
them to the backend at a time, and joins the answers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import gevent
from gevent.event import AsyncResult

from contract.options import BEAM_SIZE
from contract.tasks import TRANSLATION
from gateway.admission import Admission
from gateway.backend import write_row
from gateway.errors import Problem, RowProblem, TooManyRows
from gateway.glossaries.glossary import Choice
from gateway.schemas import TranslationRequest
from gateway.settings import Settings
from gateway.telemetry import Telemetry
from gateway.text import markup
from gateway.text.capitals import to_capitals, to_sentence_case
from gateway.text.documents import Document, Format, Segment, divide, take_apart
from gateway.text.langid import UNDETERMINED, Guess, Identifier
from gateway.text.marks import mend
from gateway.text.placeholders import Placeholder, Role, restore
from gateway.text.readers import Readers
from gateway.text.reading import ReadingJob
from gateway.text.terms import settle
from gateway.transport.caller import Caller
from gateway.transport.connection import take_turns
from torchserve_backend.catalog import Catalog

_TEXT_TOO_LONG = "text-too-long"
#: The work that each row takes beside its characters, in characters.
_ROW_CHARACTERS = 20
#: A part of a sentence may have more tokens than its share of the characters.
_MARGIN = 0.8
#: Characters of a text with tags in which its language is looked for.
_LOOKED_AT = 20_000
#: Places that a warning names. It only counts further ones.
_PLACES = 3

_UNIDENTIFIED = "too little evidence for the language of this text: name src_lang"
_NO_DICTIONARY = "the glossary has no dictionary from {} to {}"
_TORN = "cut from a sentence that is longer than the model takes"

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Rendering:
    """A translation, and its mean log-probability per token if a model made it."""

    text: str
    score: float | None = None


@dataclass(frozen=True)
class Warned:
    """A warning about characters `start` to `end` of a text."""

    start: int
    end: int
    warning: str


@dataclass(frozen=True)
class Result:
    """The renderings of a sentence or a text, the translation first."""

    renderings: tuple[Rendering, ...]
    warned: tuple[Warned, ...] = ()


@dataclass(frozen=True)
class TranslatedText:
    """The answer to one text. It has a `guess` if the client did not name the language."""

    renderings: tuple[Rendering, ...]
    warnings: tuple[str, ...] = ()
    guess: Guess | None = None


@dataclass(frozen=True)
class Translator:
    """Translates requests. Safe to share among greenlets."""

    catalog: Catalog
    admission: Admission
    identifier: Identifier
    telemetry: Telemetry
    readers: Readers
    settings: Settings

    def translate(
        self,
        wanted: TranslationRequest,
        caller: Caller,
        dictionaries: Choice | None = None,
    ) -> list[TranslatedText]:
        """One answer per text. Raises the first Problem of a text, Overloaded if time is too
        short for all texts, and ClientGone as soon as the client hangs up. The caller's key
        pays for the texts' characters."""
        characters = sum(
            markup.count_characters(text, wanted.tags) for text in wanted.texts
        )
        with caller.charge(characters):
            return _Job(self, wanted, caller, dictionaries).run()


class _Job:
    """One request. However long its texts are, only a few sentences are sent at a time. Equal
    sentences are sent once."""

    def __init__(
        self,
        translator: Translator,
        wanted: TranslationRequest,
        caller: Caller,
        dictionaries: Choice | None,
    ) -> None:
        self._translator = translator
        self._dictionaries = dictionaries
        self._wanted = wanted
        self._caller = caller
        self._patience = caller.patience
        self._at_once = translator.settings.sentences_at_once
        self._guesses: list[Guess | None] = []
        self._documents: dict[int, Document] = {}
        self._more_rows = 0
        self._model = translator.catalog.route(TRANSLATION, wanted.target).name
        self._row: dict[str, Any] = {
            "tgt_lang": wanted.target,
            "beam_size": wanted.beam_size,
            "alternatives": wanted.alternatives,
        }
        beams = max(wanted.beam_size, wanted.alternatives + 1, BEAM_SIZE.default)
        self._cost_factor = beams / BEAM_SIZE.default
        self._answers: dict[tuple[str, str], AsyncResult[dict[str, Any]]] = {}
        self._is_blamed = False

    def run(self) -> list[TranslatedText]:
        """All texts, side by side."""
        texts = self._wanted.texts
        self._guesses = self._identify()
        self._documents = self._read()
        rows = {
            (self._source_of(index), _prepare(segment, self._source_of(index)))
            for index, document in self._documents.items()
            for segment in document.segments
        }
        costs = [self._weigh(text) for _, text in rows]
        if not costs:
            return [self._answer_text(index) for index in range(len(texts))]
        is_bulk = self._caller.is_bulk or len(costs) > self._at_once
        with self._translator.admission.admit(
            self._model, self._caller, costs, is_bulk=is_bulk
        ) as self._ticket:
            return self._map(self._answer_text, range(len(texts)))

    def _identify(self) -> list[Guess | None]:
        """Each text's language if the client has not named it."""
        texts = self._wanted.texts
        if self._wanted.source:
            return [None] * len(texts)
        identify = self._translator.identifier.identify
        return [
            identify(markup.strip(text[:_LOOKED_AT]) if self._wanted.tags else text)
            for text in take_turns(texts, self._patience)
        ]

    def _read(self) -> dict[int, Document]:
        """The texts that need a translation, by their indices."""
        needed = {
            index: (text, self._source_of(index))
            for index, text in enumerate(self._wanted.texts)
            if text.strip()
            and self._source_of(index) not in (self._wanted.target, UNDETERMINED)
        }
        job = ReadingJob(
            tuple(needed.values()),
            self._wanted.tags,
            self._wanted.is_protected,
            self._translator.settings.max_rows,
            self._wanted.splitting,
            self._wanted.target,
            self._dictionaries,
        )
        documents = self._translator.readers.read(job, self._patience)
        return dict(zip(needed, documents, strict=True))

    def _source_of(self, index: int) -> str:
        guess = self._guesses[index]
        return guess.language if guess else self._wanted.source or UNDETERMINED

    def _map(self, function: Callable[[In], Out], items: Sequence[In]) -> list[Out]:
        """Like `map`, in greenlets. The first error cancels the rest."""
        if len(items) < 2:
            return [function(item) for item in items]
        outcomes: list[Any] = [None] * len(items)
        errors: list[Exception] = []
        rest = iter(enumerate(items))

        def work() -> None:
            try:
                for i, item in rest:
                    outcomes[i] = function(item)
            except Exception as error:  # `_map` raises it
                errors.append(error)

        greenlets = [gevent.spawn(work) for _ in items[: self._at_once]]
        try:
            for _ in gevent.iwait(greenlets):
                if errors:
                    raise errors[0]
        finally:
            gevent.killall(greenlets, block=False)
        return outcomes

    def _answer_text(self, index: int) -> TranslatedText:
        text, guess = self._wanted.texts[index], self._guesses[index]
        source, document = self._source_of(index), self._documents.get(index)
        if document is None:
            is_unknown = text.strip() and source == UNDETERMINED
            warned = (_UNIDENTIFIED,) if is_unknown else ()
            return TranslatedText((Rendering(text),), warned, guess)
        try:
            result = self._translate_document(document, source)
        except Problem as problem:
            if self._wanted.is_list and not self._is_blamed:
                self._is_blamed = True  # equal sentences have the same problem
                problem.detail = f"src_text[{index}]: {problem.detail}"
            raise
        is_whole = len(document.segments) == 1
        warnings = list(_summarize(result.warned, is_whole=is_whole))
        if self._dictionaries and source not in self._dictionaries.by_source:
            warnings.append(_NO_DICTIONARY.format(source, self._wanted.target))
        return TranslatedText(result.renderings, tuple(warnings), guess)

    def _translate_document(self, document: Document, source: str) -> Result:
        translate = partial(
            self._translate_segment, source=source, format=document.format
        )
        return _join(document, self._map(translate, document.segments))

    def _translate_segment(
        self, segment: Segment, *, source: str, format: Format
    ) -> Result:
        prepared = _prepare(segment, source)
        try:
            answer = self._predict(prepared, source)
        except RowProblem as problem:
            return self._translate_parts(_divide(segment, format, problem), source)
        finish = partial(self._finish, segment, prepared, source)
        renderings = list(_read_renderings(answer, segment, format, finish))
        if segment.placeholders:
            self._translator.telemetry.count_placeholders(is_kept=bool(renderings))
        if not renderings:
            return self._translate_parts(take_apart(segment, format), source)
        warnings = [*answer.get("warnings", []), *([_TORN] if segment.is_torn else [])]
        end = segment.start + len(segment.text)
        warned = (Warned(segment.start, end, warning) for warning in warnings)
        return Result(tuple(renderings), tuple(warned))

    def _finish(
        self, segment: Segment, prepared: str, source: str, translated: str
    ) -> tuple[str, Sequence[Placeholder]]:
        """A model's translation as it is to be written, with its placeholders."""
        text = self._write(segment, prepared, source, translated)
        pair = source, self._wanted.target
        return text, settle(segment.text, segment.placeholders, text, pair)

    def _write(
        self, segment: Segment, prepared: str, source: str, translated: str
    ) -> str:
        """A model's translation with the text's final marks and capitals. What the model
        copies stays as it was."""
        if translated == prepared:
            return segment.prepared
        target = self._wanted.target
        tags = _find_last_tags(segment, prepared)
        ending = tags if translated.endswith(tags) else ""
        bare = translated.removesuffix(ending)
        translated = mend(prepared.removesuffix(tags), bare, source, target) + ending
        return to_capitals(translated, target) if segment.is_in_capitals else translated

    def _translate_parts(self, document: Document, source: str) -> Result:
        """Translates parts of a sentence. All parts of a request together are limited like
        its sentences."""
        self._more_rows += len(document.segments)
        if self._more_rows > self._translator.settings.max_rows:
            raise TooManyRows(self._translator.settings.max_rows)
        return self._translate_document(document, source)

    def _predict(self, text: str, source: str) -> dict[str, Any]:
        known = self._answers.get((source, text))
        if known is None:
            known = self._answers[source, text] = AsyncResult()
            row = write_row({"src_lang": source, "src_text": text, **self._row})
            try:
                known.set(self._ticket.predict(row, self._weigh(text)))
            except Exception as error:
                known.set_exception(error)
        return known.get()  # type: ignore[no-any-return]

    def _weigh(self, text: str) -> float:
        """The work of a row at this request's beam size."""
        return weigh(text) * self._cost_factor


def _prepare(segment: Segment, source: str) -> str:
    """A sentence as the model gets it."""
    if segment.is_in_capitals:
        return to_sentence_case(segment.prepared, source)
    return segment.prepared


def _find_last_tags(segment: Segment, prepared: str) -> str:
    """The placeholders of closing tags at the end: the final mark may stand before them."""
    end = len(prepared)
    for number, placeholder in reversed(list(enumerate(segment.placeholders))):
        tag = f"{{{number}}}"
        if placeholder.role is not Role.CLOSING or not prepared.endswith(tag, 0, end):
            break
        end -= len(tag)
    return prepared[end:]


def weigh(text: str) -> float:
    """The work of a row at the default beam size: its characters, and a constant."""
    return len(text) + _ROW_CHARACTERS


def _divide(segment: Segment, format: Format, problem: RowProblem) -> Document:
    """Divides a sentence that is too long for the model. Raises `problem` if it says
    something else, or if the sentence cannot be divided."""
    tokens, limit = (problem.extra.get(name) for name in ("tokens", "limit"))
    if problem.slug != _TEXT_TOO_LONG or not tokens or not limit:
        raise problem
    share = _MARGIN * limit / tokens
    document = divide(segment, max(1, int(len(segment.text) * share)), format)
    if any(len(part.text) == len(segment.text) for part in document.segments):
        raise problem
    return document


def _read_renderings(
    answer: dict[str, Any],
    segment: Segment,
    format: Format,
    finish: Callable[[str], tuple[str, Sequence[Placeholder]]],
) -> Iterator[Rendering]:
    """The translation and its alternatives, finished and with placeholders restored. Empty
    if the translation has lost one. What differs in its final mark only is one rendering."""
    seen: set[str] = set()
    main = {"text": answer["translated"], "score": answer.get("score")}
    for number, found in enumerate([main, *answer.get("alternatives", [])]):
        text = restore(*finish(found["text"]), format.write)
        if text is None and number == 0:
            return
        if text is not None and text not in seen:
            seen.add(text)
            yield Rendering(text, found["score"])


def _join(document: Document, results: list[Result]) -> Result:
    """The renderings of a document: the best of each sentence, the second best, and so on. A
    sentence with fewer renderings repeats its last."""
    count = max((len(result.renderings) for result in results), default=1)
    renderings = []
    for rank in range(count):
        chosen = [r.renderings[min(rank, len(r.renderings) - 1)] for r in results]
        scores = [r.score for r in chosen if r.score is not None]
        text = document.render(rendering.text for rendering in chosen)
        renderings.append(Rendering(text, statistics.fmean(scores) if scores else None))
    warned = (warned for result in results for warned in result.warned)
    return Result(tuple(renderings), tuple(warned))


def _summarize(warned: Iterable[Warned], *, is_whole: bool) -> Iterator[str]:
    """Each warning once, with its places unless it is about the whole text."""
    places: dict[str, list[str]] = {}
    for found in warned:
        places.setdefault(found.warning, []).append(f"{found.start}-{found.end}")
    for warning, spans in places.items():
        more = f" and {len(spans) - _PLACES} more" if len(spans) > _PLACES else ""
        where = f"characters {', '.join(spans[:_PLACES])}{more}: "
        yield warning if is_whole and len(spans) == 1 else where + warning
