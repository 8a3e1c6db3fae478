"""Shared by the routes for texts, whichever API they speak: checks what is asked for,
translates it and counts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from flask import Blueprint, Response, g, request
from pydantic import BaseModel, ConfigDict, ValidationError

from contract.languages import is_traditional_chinese, normalize_language
from contract.tasks import TRANSLATION
from contract.validation import list_faults
from gateway.access import find_owner
from gateway.errors import MalformedRequest, TaskNotServed
from gateway.glossaries.library import Glossaries
from gateway.http.caller import read_caller
from gateway.metrics.registry import NO_TARGET, Telemetry
from gateway.schemas import AUTO, DocumentRequest, TranslationLimits, write_schema
from gateway.services.translator import RequestTranslator
from gateway.settings import Settings
from text.composition import TranslatedText
from text.langid import UNDETERMINED, Guess, weigh_identification
from text.options import TranslationRequest

#: The values of clients for a source that is to be identified.
_UNKNOWN = ("", AUTO, UNDETERMINED)


class ForeignSchema(BaseModel):
    """Fields of another API. Forms have only text, so numbers may be text as well. Unknown
    fields are ignored, and so are empty ones that are optional."""

    model_config = ConfigDict(frozen=True)


Valid = TypeVar("Valid", bound=ForeignSchema)


@dataclass(frozen=True)
class Wording:
    """How a server refuses a `{field}` that is missing or wrong."""

    missing: str
    wrong: str

    def miss(self, field: str) -> MalformedRequest:
        """The refusal of a request without a field."""
        return MalformedRequest(self.missing.format(field=field), reason="required")

    def refuse(self, field: str, explanation: str) -> MalformedRequest:
        """The refusal of a wrong field; the explanation is ours."""
        return refuse(self.wrong.format(field=field), explanation)


def refuse(message: str, explanation: str | None = None) -> MalformedRequest:
    """A refusal in another server's words, with an explanation of ours."""
    extra = {"explanation": explanation} if explanation else {}
    return MalformedRequest(message, **extra)


def parse_fields(
    schema: type[Valid], fields: Mapping[str, Any], wording: Wording
) -> Valid:
    """The fields of a request. Raises MalformedRequest with the first fault."""
    given = {
        name: value
        for name, value in fields.items()
        if value != "" or _is_required(schema, name)
    }
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        field = str(errors[0]["loc"][0])
        if errors[0]["type"] == "missing":
            raise wording.miss(field) from error
        fault = list_faults(errors, write_schema(schema))[field]
        raise wording.refuse(field, fault) from error


def _is_required(schema: type[ForeignSchema], name: str) -> bool:
    return name in schema.model_fields and schema.model_fields[name].is_required()


@dataclass(frozen=True)
class TranslationService:
    """Translates for all APIs. `sources` are the languages that the model reads."""

    translator: RequestTranslator
    telemetry: Telemetry
    settings: Settings
    sources: Sequence[str]
    glossaries: Glossaries

    @cached_property
    def limits(self) -> TranslationLimits:
        """The limits of a request. Raises TaskNotServed where there is no language."""
        catalog = self.translator.catalog
        if not catalog.languages:
            raise TaskNotServed(TRANSLATION)
        return TranslationLimits(
            targets=catalog.languages,
            max_texts=self.settings.max_texts,
            max_beam_size=catalog.translation.max_beam_size,
            max_alternatives=catalog.translation.max_alternatives,
        )

    def translate(self, wanted: TranslationRequest) -> list[TranslatedText]:
        """An answer for each text of the current request. Raises what
        `RequestTranslator.translate` and `Glossaries.choose` raise, and MalformedRequest."""
        caller = read_caller(request.environ, self.settings.timeout_s)
        g.target = wanted.target
        dictionaries = None
        if wanted.glossaries:
            dictionaries = self.glossaries.choose(
                find_owner(), wanted.glossaries, wanted.source, wanted.target
            )
        answers = self.translator.translate(wanted, caller, dictionaries)
        self.telemetry.count_texts(wanted.target, wanted.texts)
        return answers

    def check_glossary(self, wanted: DocumentRequest, owner: str) -> DocumentRequest:
        """The same request if the owner has its glossary, with a dictionary that fits. Raises
        what `Glossaries.choose` raises."""
        if wanted.glossary:
            pair = wanted.source, wanted.target
            self.glossaries.choose(owner, (wanted.glossary,), *pair)
        return wanted

    def identify(self, texts: Sequence[str]) -> list[list[Guess]]:
        """The likely languages of each text of the current request, best first. Raises what
        `LoopQueue.take_turns` raises, and MalformedRequest."""
        caller = read_caller(request.environ, self.settings.timeout_s)
        turns = self.translator.identifying.take_turns(
            texts, caller, weigh_identification
        )
        return [self.translator.identifier.rank(text) for text in turns]

    def find_target(self, tag: str) -> str | None:
        """The language that a tag asks for; None if it is not served as asked."""
        language = normalize_language(tag)
        is_served = language in self.translator.catalog.languages
        return language if is_served and not is_traditional_chinese(tag) else None

    def find_source(self, tag: str) -> str | None:
        """The language that a tag names, or None if it is to be identified. Raises LookupError
        if the model does not read it."""
        if tag.strip().lower() in _UNKNOWN:
            return None
        language = normalize_language(tag)
        if language not in self.sources:
            raise LookupError(tag)
        return language

    def read_source(self, tag: str, field: str, wording: Wording) -> str | None:
        """Find the source. Raises MalformedRequest in an API's words."""
        try:
            return self.find_source(tag)
        except LookupError:
            raise wording.refuse(field, f"found {tag[:40]!r}") from None

    def read_target(
        self,
        tag: str,
        field: str,
        wording: Wording,
        *,
        list_served: Callable[[], Sequence[str]] = tuple,
    ) -> str:
        """The language that a tag asks for. Raises MalformedRequest in an API's words, with
        the languages that are served in its codes."""
        target = self.find_target(tag)
        if target is None:
            explanation = self.explain_target(tag, list_served())
            raise wording.refuse(field, f"found {tag[:40]!r}, {explanation}")
        return target

    def explain_target(self, tag: str, served: Sequence[str] = ()) -> str:
        """Why a target is refused, and what was expected, in the codes of an API."""
        served = served or self.translator.catalog.languages
        expected = f"expected one of {', '.join(served)}"
        if is_traditional_chinese(tag):
            return (
                f"Chinese is written in simplified characters here, as zh; {expected}"
            )
        return expected

    def count_request(self, target: str, status: int) -> None:
        """Counts and times the current request by its target and status."""
        seconds = time.perf_counter() - g.started
        self.telemetry.count_translation(target, status, seconds)

    def count_requests(self, blueprint: Blueprint, *paths: str) -> None:
        """Counts the requests to these of a blueprint's paths by target and status."""

        @blueprint.after_request
        def count(response: Response) -> Response:
            if request.path in paths:
                self.count_request(g.get("target", NO_TARGET), response.status_code)
            return response


def name_source(guess: Guess | None, *, other: str) -> Guess:
    """The language of a text, for an API that must name one: the likeliest, however little is
    known, and `other` for a text without letters."""
    if guess is None or guess.language != UNDETERMINED:
        return guess or Guess(other, 0.0)
    if not guess.likeliest:
        return Guess(other, 0.0)
    return Guess(guess.likeliest, guess.confidence)


def list_texts(given: str | list[str]) -> tuple[str, ...]:
    """The texts of a field that may be one or several."""
    return (given,) if isinstance(given, str) else tuple(given)
