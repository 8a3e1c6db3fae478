"""Translates texts for all APIs: splits each into sentences, sends a limited number of them to
the backend at a time, and joins the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import gevent
from gevent.event import AsyncResult
from gevent.lock import BoundedSemaphore

from catalog import Catalog, Model
from contract.languages import choose_language, list_variants, normalize_language
from contract.options import BEAM_SIZE
from contract.tasks import TRANSLATION
from gateway.admission.control import Admission, Ticket
from gateway.admission.queue import LoopQueue
from gateway.backends.backend import write_row
from gateway.cache.sentences import DIGEST, Answer, SentenceCache
from gateway.errors import Problem, RowProblem, TaskNotServed, TooManyRows
from gateway.glossaries.library import Glossaries
from gateway.http.request import Call
from gateway.metrics import Telemetry
from gateway.schemas import DocumentRequest, TranslationLimits, Wording
from gateway.services.hops import PivotedRows, ReplacedRows, refuse_pair
from gateway.services.readers import Readers
from gateway.settings import Settings
from gateway.threads import MANY, let_others_run
from text import composition
from text.composition import (
    PlannedSentence,
    Result,
    Row,
    TranslatedText,
    TranslationPlan,
)
from text.document import Document, TextFormat
from text.langid import UNDETERMINED, Guess, Identifier, weigh_identification
from text.messages import strip
from text.options import AUTO, TranslationRequest

#: The values of clients for a source language to be identified.
_UNKNOWN = ("", AUTO, UNDETERMINED)
#: The constant part of a row's work, in characters.
_ROW_CHARACTERS = 20
#: The share of the remaining time that a row may spend in the pivot's model.
_FIRST_SHARE = 0.5

#: Reports progress of the text with a number; the function returns the text's translated
#: beginning, or None if it cannot be shown.
Tell = Callable[[int, Callable[[], TranslatedText | None]], None]

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class TranslationService:
    """The translation of texts for all APIs. `sources` are the languages that models read, with
    their variants. Safe to share among greenlets."""

    catalog: Catalog
    admission: Admission
    cache: SentenceCache
    identifier: Identifier
    telemetry: Telemetry
    readers: Readers
    settings: Settings
    sources: Sequence[str]
    glossaries: Glossaries
    #: The queue of requests whose texts' languages are identified.
    identifying: LoopQueue = field(default_factory=LoopQueue)

    @cached_property
    def bounds(self) -> TranslationLimits:
        """The limits of the map and the settings, even if the map has no language."""
        return TranslationLimits(
            targets=tuple(list_variants(self.catalog.languages)),
            sources=tuple(self.sources),
            written=self.catalog.languages,
            max_texts=self.settings.max_texts,
            max_beam_size=self.catalog.translation.max_beam_size,
            max_alternatives=self.catalog.translation.max_alternatives,
        )

    @cached_property
    def limits(self) -> TranslationLimits:
        """The limits of a request. Raises TaskNotServed if the map has no language."""
        if not self.catalog.languages:
            raise TaskNotServed(TRANSLATION)
        return self.bounds

    def translate(
        self, wanted: TranslationRequest, call: Call, tell: Tell | None = None
    ) -> list[TranslatedText]:
        """Return one answer per text. Meanwhile, call `tell` for each text whenever one more of
        its sentences, in their order, is translated. The call's key pays for the characters.

        Raises the first Problem of a text, Overloaded if the time is too short for all texts,
        ClientGone as soon as the client disconnects, and the errors of `Glossaries.choose`."""
        answers = _Job(self, wanted, call, tell).run()
        telemetry = self.telemetry
        characters = sum(answer.characters for answer in answers)
        telemetry.count(telemetry.texts, wanted.model_target, amount=len(answers))
        telemetry.count(telemetry.characters, wanted.model_target, amount=characters)
        return answers

    def check_document(self, wanted: DocumentRequest, owner: str) -> DocumentRequest:
        """Return the same request if models can translate between its languages, and the owner
        has its glossary, with a dictionary for them. Raises UnknownLanguage, and the errors of
        `Glossaries.choose`."""
        if wanted.source:
            source = normalize_language(wanted.source)
            target = choose_language(wanted.target, self.catalog.languages)
            if source != target and not self.catalog.find_path(source, target):
                raise refuse_pair(self.catalog, source, wanted.target)
        if wanted.glossary:
            self.glossaries.choose(
                owner, (wanted.glossary,), wanted.source, wanted.target
            )
        return wanted

    def identify(
        self, texts: Sequence[str], call: Call, languages: Sequence[str] = ()
    ) -> list[list[Guess]]:
        """Return the likely languages of each text, best first; with `languages`, all of these.
        Raises the errors of `LoopQueue.take_turns`."""
        turns = self.identifying.take_turns(texts, call, weigh_identification)
        return [self.identifier.rank(strip(text), languages) for text in turns]

    def read_source(self, tag: str, field: str, wording: Wording) -> str | None:
        """Return the language or variant that a tag names, or None if it must be identified.
        Raises MalformedRequest in an API's wording if no model reads it."""
        if tag.strip().lower() in _UNKNOWN:
            return None
        language = choose_language(tag, self.sources)
        if language not in self.sources:
            raise wording.refuse_language(field, tag)
        return language

    def read_target(self, tag: str, field: str, wording: Wording) -> str:
        """Return the language or variant that a tag names. Raises MalformedRequest in an API's
        wording, with the API's codes of the served languages."""
        language = choose_language(tag, self.bounds.targets)
        if language in self.bounds.targets:
            return language
        served = wording.list_codes(self.limits.targets)
        expected = f"expected one of {', '.join(served)}"
        raise wording.refuse_language(field, tag, expected)


def name_source(guess: Guess | None, *, other: str) -> Guess:
    """Return the language of a text, for an API that must name one: the likeliest, even if it
    is uncertain, and `other` for a text without letters."""
    if guess and guess.language != UNDETERMINED:
        return guess
    if guess and guess.likeliest:
        return Guess(guess.likeliest, guess.confidence)
    return Guess(other, 0.0)


class _Job:
    """One request, which sends only a few of its sentences at a time, and equal ones once."""

    def __init__(
        self,
        service: TranslationService,
        wanted: TranslationRequest,
        call: Call,
        tell: Tell | None,
    ) -> None:
        self.service, self.call = service, call
        #: Closes the tickets of each model's admitted rows.
        self.tickets = ExitStack()
        self._wanted, self._tell = wanted, tell
        self._max_rows = service.settings.max_rows
        self._more_rows = 0
        self._is_blamed = False
        #: Taken by one sentence at a time, and their number.
        self._composing, self._composed = BoundedSemaphore(), 0
        #: The characters of the sentences that `tell` may show.
        self._told = 0
        dictionaries = None
        if wanted.glossaries:
            dictionaries = service.glossaries.choose(
                call.owner, wanted.glossaries, wanted.source, wanted.target
            )
        self._plan = TranslationPlan(
            wanted, self._identify(), self._max_rows, dictionaries
        )

    def run(self) -> list[TranslatedText]:
        """Translate all texts, in parallel."""
        plan = self._plan
        texts = range(len(self._wanted.texts))
        plan.read(self.service.readers.read(plan.job, self.call))
        try:
            with self.call.charge(plan.characters), self.tickets:
                self._rows = self._open_rows()
                self._rows.prepare(plan.rows)
                answers = self._map(self._answer_text, texts)
                self._told = 0  # now all are billed, even if the client leaves here
                return answers
        except BaseException:  # also if the client leaves its stream
            if self._told:
                # If others have used the quota meanwhile, the first error says more.
                with suppress(Problem), self.call.charge(self._told):
                    pass
            raise

    def _open_rows(self) -> ModelRows | ReplacedRows | PivotedRows:
        """Return the rows of the target's own model, some by way of the pivot's. Raises
        UnknownLanguage if no model can translate a text."""
        catalog, wanted = self.service.catalog, self._wanted
        last = self._open_target(wanted)
        via = set()
        # Clients check their options with texts that have no rows.
        named = {wanted.model_source or UNDETERMINED}
        named -= {UNDETERMINED, wanted.target_language}
        for source in dict.fromkeys((*named, *(row[0] for row in self._plan.rows))):
            path = catalog.find_path(source, wanted.model_target)
            if not path:
                problem = refuse_pair(catalog, source, wanted.target)
                if wanted.is_list and not wanted.source:
                    index = self._plan.sources.index(source)
                    problem.detail = f"src_text[{index}]: {problem.detail}"
                raise problem
            if len(path) > 1:
                via.add(source)
        if not via:
            return last
        asked = replace(wanted, target=catalog.pivot, alternatives=0)
        first = self._open_target(asked, _FIRST_SHARE)
        return PivotedRows(first, last, catalog.pivot, via)

    def _open_target(
        self, wanted: TranslationRequest, share: float = 1.0
    ) -> ModelRows | ReplacedRows:
        """Return the rows of a target's own model, with its fallback if there is one."""
        catalog, target = self.service.catalog, wanted.model_target
        own = ModelRows(catalog.route(TRANSLATION, target), self, wanted, share)
        if not (fallback := catalog.fallbacks.get(target)):
            return own
        is_read = partial(catalog.is_read, model=fallback.model)
        other = ModelRows(fallback.model, self, wanted, share)
        return ReplacedRows(own, other, fallback.below, is_read)

    def _identify(self) -> list[Guess | None]:
        """Return each text's language if the client has not named it."""
        texts = self._wanted.texts
        if self._wanted.source:
            return [None] * len(texts)
        identifier, identifying = self.service.identifier, self.service.identifying
        turns = identifying.take_turns(texts, self.call, weigh_identification)
        return [composition.identify(identifier, text, self._wanted) for text in turns]

    def _map(self, function: Callable[[In], Out], items: Sequence[In]) -> list[Out]:
        """Map in greenlets. The first error cancels the rest."""
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

        at_once = self.service.settings.sentences_at_once
        greenlets = [gevent.spawn(work) for _ in items[:at_once]]
        try:
            for _ in gevent.iwait(greenlets):
                if errors:
                    raise errors[0]
        finally:
            gevent.killall(greenlets, block=False)
        return outcomes

    def _answer_text(self, index: int) -> TranslatedText:
        found = self._plan.find(index)
        if found is None:
            return self._plan.finish(index, None)
        try:
            if self._tell:
                result = self._translate_in_order(index, *found, self._tell)
            else:
                result = self._translate_document(*found)
        except Problem as problem:
            if self._wanted.is_list and not self._is_blamed:
                self._is_blamed = True  # equal sentences have the same problem
                problem.detail = f"src_text[{index}]: {problem.detail}"
            raise
        return self._plan.finish(index, result)

    def _translate_document(
        self, document: Document, sentences: Sequence[PlannedSentence]
    ) -> Result:
        translate = partial(self._translate_sentence, format=document.format)
        return composition.join(document, self._map(translate, sentences))

    def _translate_in_order(
        self,
        index: int,
        document: Document,
        sentences: Sequence[PlannedSentence],
        tell: Tell,
    ) -> Result:
        """Translate the document of a text, and report progress to `tell`."""
        if not sentences:
            return self._translate_document(document, sentences)
        results: list[Any] = [None] * len(sentences)
        done = told = 0

        def show(count: int) -> TranslatedText | None:
            if self._wanted.min_quality and count < len(sentences):
                return None  # a later sentence may have a lower quality
            beginning = composition.join_first(document, results[:count])
            return self._plan.finish(index, beginning) if beginning else None

        def translate(number: int) -> Result:
            nonlocal done, told
            result = self._translate_sentence(sentences[number], format=document.format)
            results[number] = result
            while done < len(results) and results[done]:
                done += 1
                tell(index, partial(show, done))
            if done == len(results) or not self._wanted.min_quality:
                more = sentences[told:done]
                told = done
                self._told += sum(len(each.segment.text) for each in more)
            return result

        # In a batch with the others, the first would be done only with the last of them.
        translate(0)
        self._map(translate, range(1, len(sentences)))
        return composition.join(document, results)

    def _translate_sentence(
        self, sentence: PlannedSentence, *, format: TextFormat
    ) -> Result:
        segment = sentence.segment
        answer = composition.answer_here(sentence, self._wanted.target_language)
        try:
            answer = answer or self._rows.predict(sentence.row)
        except RowProblem as problem:
            parts = composition.divide_further(segment, format, problem.extra)
            if parts is None:
                raise
            return self._translate_parts(parts, sentence.source)
        with self._composing:  # the answers of many sentences may be in the cache
            self._composed += 1
            if self._composed % MANY == 0:
                let_others_run()
            composed = composition.compose(sentence, format, self._wanted, answer)
        is_kept = isinstance(composed, Result)
        if segment.placeholders:
            telemetry = self.service.telemetry
            outcome = "kept" if is_kept else "lost"
            telemetry.count(telemetry.placeholders, outcome)
        if isinstance(composed, Result):
            return composed
        pieces = self._translate_parts(composed, sentence.source)
        return replace(pieces, quality=min(pieces.quality, answer.get("quality", 0.0)))

    def _translate_parts(self, document: Document, source: str) -> Result:
        """Translate parts of a sentence. A request's parts are limited like its sentences."""
        sentences = composition.list_sentences(
            document, source, self._wanted.target_language
        )
        self._more_rows += len(sentences)
        if self._more_rows > self._max_rows:
            raise TooManyRows(self._max_rows)
        return self._translate_document(document, sentences)


class ModelRows:
    """The rows of one request to one model."""

    def __init__(
        self, model: Model, job: _Job, wanted: TranslationRequest, share: float
    ) -> None:
        """Each row may use a `share` of the time that remains when it is sent."""
        self._model, self._wanted, self._share = model, wanted, share
        self._service, self._call, self._tickets = job.service, job.call, job.tickets
        self._kept = job.service.cache.open(model.name, wanted, job.call)
        self._answers: dict[Row, AsyncResult[Answer]] = {}
        #: The rows that were looked up in the cache.
        self._sought: Collection[Row] = ()
        self._ticket: Ticket | None = None

    def prepare(
        self, rows: Collection[Row], more: Collection[Row] = ()
    ) -> Mapping[Row, Answer]:
        """Return the cached answers. Admit all other rows, except those already sent for
        another request, and `more`. Raises the errors of `Admission.admit`."""
        self._sought = frozenset(rows)
        found = self._kept.find(rows)
        for row, answer in found.items():
            known = self._answers[row] = AsyncResult()
            known.set(answer)
        coming = self._kept.is_coming
        missing = [row for row in rows if row not in found and not coming(row)]
        if missing or more:
            self._admit([*missing, *more])
        return found

    def predict(self, row: Row) -> Answer:
        """Return the answer to a row, and name its model to the client."""
        answer = self.ask(row)
        self.name(answer)
        return answer

    def ask(self, row: Row) -> Answer:
        """Return the answer to a row. Equal rows are sent once."""
        known = self._answers.get(row)
        if known is None:
            known = self._answers[row] = AsyncResult()
            try:
                found = {} if row in self._sought else self._kept.find([row])
                ask_model = partial(self._ask_model, row)
                known.set(found.get(row) or self._kept.ask(row, ask_model))
            except Exception as error:
                known.set_exception(error)
        return known.get()  # type: ignore[no-any-return]

    def name(self, answer: Answer) -> None:
        """Record the model of an answer that the client gets."""
        if digest := answer.get(DIGEST):
            self._call.timing.name_model(self._model.weights, digest)

    def _admit(self, rows: Sequence[Row]) -> Ticket:
        costs = [self._weigh(row) for row in rows]
        at_once = self._service.settings.sentences_at_once
        ticket = self._ticket = self._service.admission.admit(
            self._model.name,
            self._call,
            costs,
            is_bulk=self._call.is_bulk or len(costs) > at_once,
        )
        self._tickets.callback(ticket.close)
        return ticket

    def _ask_model(self, row: Row) -> Answer:
        """Send a row. If it was already sent for another request, admit it now."""
        asked = write_row(composition.describe_row(self._wanted, row), self._call.trace)
        ticket = self._ticket or self._admit([row])
        until: float = self._call.deadline
        if self._share < 1:
            now = time.monotonic()
            until = now + self._share * (until - now)
        return ticket.predict(asked, self._weigh(row), until)

    def _weigh(self, row: Row) -> float:
        beams = max(self._wanted.beam_size, self._wanted.alternatives + 1)
        return weigh(row[1], beams)


def weigh(text: str, beams: int) -> float:
    """Return the work of a row with this number of hypotheses: its characters, and a constant.
    Fewer than the default save nothing."""
    factor = max(beams, BEAM_SIZE.default) / BEAM_SIZE.default
    return (len(text) + _ROW_CHARACTERS) * factor
