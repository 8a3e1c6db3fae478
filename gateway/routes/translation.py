"""`POST /` and `POST /translate`: translates one text, or a list of them, into one
language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, g, request

from contract.tasks import PATHS, TRANSLATION
from gateway.errors import TaskNotServed
from gateway.schemas import (
    TranslationLimits,
    TranslationRequest,
    parse_translation,
)
from gateway.settings import Settings
from gateway.telemetry import NO_TARGET, Telemetry
from gateway.text.translator import TranslatedText, Translator
from gateway.transport.caller import read_caller
from torchserve_backend.catalog import Catalog


def make_blueprint(
    settings: Settings, translator: Translator, telemetry: Telemetry
) -> Blueprint:
    """The translation routes."""
    blueprint = Blueprint(TRANSLATION, __name__)
    limits = _read_limits(translator.catalog, settings)

    @blueprint.post("/")
    @blueprint.post(PATHS[TRANSLATION])
    def translate() -> dict[str, Any]:
        if not limits.targets:
            raise TaskNotServed(TRANSLATION)
        caller = read_caller(request.environ, settings.timeout_s)
        wanted = parse_translation(request.get_data(), limits)
        g.target = wanted.target
        answers = translator.translate(wanted, caller)
        telemetry.count_texts(wanted.target, wanted.texts)
        return _join(wanted, answers)

    @blueprint.after_request
    def count_request(response: Response) -> Response:
        telemetry.count_translation(g.get("target", NO_TARGET), response.status_code)
        return response

    return blueprint


def _read_limits(catalog: Catalog, settings: Settings) -> TranslationLimits:
    section = catalog.translation
    return TranslationLimits(
        targets=catalog.languages,
        max_texts=settings.max_texts,
        max_beam_size=section.max_beam_size,
        max_alternatives=section.max_alternatives,
    )


def _join(
    wanted: TranslationRequest, texts: Sequence[TranslatedText]
) -> dict[str, Any]:
    """One answer in the request's shape. In a list, a warning names its text."""
    fields: dict[str, list[Any]] = {
        "translated": [text.renderings[0].text for text in texts]
    }
    if wanted.source is None:
        guesses = [text.guess for text in texts if text.guess]
        fields["src_lang"] = [guess.language for guess in guesses]
        fields["confidence"] = [guess.confidence for guess in guesses]
    if wanted.alternatives:
        fields["alternatives"] = [_list_alternatives(text) for text in texts]
    if wanted.is_list:
        answer: dict[str, Any] = dict(fields)
        warnings = [
            f"src_text[{i}]: {w}" for i, text in enumerate(texts) for w in text.warnings
        ]
    else:
        answer = {name: values[0] for name, values in fields.items()}
        warnings = list(texts[0].warnings)
    return answer | ({"warnings": warnings} if warnings else {})


def _list_alternatives(text: TranslatedText) -> list[dict[str, Any]]:
    return [
        {"text": rendering.text, "score": round(rendering.score or 0.0, 4)}
        for rendering in text.renderings[1:]
    ]
