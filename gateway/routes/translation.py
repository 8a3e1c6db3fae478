"""`POST /` and `POST /translate`: one text or a list of them, into one language."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, request
from gevent.pool import Pool

from gateway.backend import Backend
from gateway.errors import TOO_LARGE, BodyTooLarge, Problem
from gateway.schemas import TranslationRequest, parse_timeout_ms, parse_translation
from gateway.settings import Settings
from gateway.telemetry import Telemetry
from torchserve_backend.catalog import TRANSLATION, Catalog

Answer = dict[str, Any]


def make_blueprint(
    settings: Settings, catalog: Catalog, backend: Backend, telemetry: Telemetry
) -> Blueprint:
    """The translation routes."""
    blueprint = Blueprint("translation", __name__)
    translator = Translator(catalog, backend, settings.texts_at_once)

    @blueprint.post("/")
    @blueprint.post("/translate")
    def translate() -> Answer:
        deadline = time.time() + parse_timeout_ms(
            request.headers.get("X-Timeout-Ms"), settings.timeout_s
        )
        body = request.get_data()
        if len(body) > settings.max_body_bytes:
            raise BodyTooLarge(TOO_LARGE)
        wanted = parse_translation(
            body,
            targets=catalog.languages,
            max_texts=settings.max_texts,
        )
        rows = translator.translate(wanted, deadline)
        telemetry.count_texts(wanted.target, wanted.texts)
        return _join(wanted, rows)

    return blueprint


@dataclass(frozen=True)
class Translator:
    """Asks the backend for each text of a request, so many at a time."""

    catalog: Catalog
    backend: Backend
    texts_at_once: int

    def translate(self, wanted: TranslationRequest, deadline: float) -> list[Answer]:
        """One answer per text; raises the Problem of the first text that has one."""

        def attempt(index: int) -> Answer | Problem:
            try:
                return self._translate_text(wanted, wanted.texts[index], deadline)
            except Problem as problem:
                problem.detail = f"src_text[{index}]: {problem.detail}"
                return problem

        if not wanted.is_list:
            return [self._translate_text(wanted, wanted.texts[0], deadline)]
        outcomes = Pool(self.texts_at_once).map(attempt, range(len(wanted.texts)))
        for outcome in outcomes:
            if isinstance(outcome, Problem):
                raise outcome
        return outcomes  # type: ignore[no-any-return]

    def _translate_text(
        self, wanted: TranslationRequest, text: str, deadline: float
    ) -> Answer:
        """Blank text, and text that is in the target language already, needs no model."""
        if not text.strip() or wanted.source == wanted.target:
            return {"translated": text}
        model = self.catalog.route(TRANSLATION, wanted.target)
        row = {"src_lang": wanted.source, "src_text": text, "tgt_lang": wanted.target}
        return self.backend.predict(model.name, row, deadline=deadline)


def _join(wanted: TranslationRequest, rows: list[Answer]) -> Answer:
    """One answer in the request's shape; in a list, a warning says which text it is about."""
    texts = [row["translated"] for row in rows]
    if not wanted.is_list:
        warnings = rows[0].get("warnings", [])
        answer: Answer = {"translated": texts[0]}
    else:
        warnings = [
            f"src_text[{i}]: {w}"
            for i, row in enumerate(rows)
            for w in row.get("warnings", [])
        ]
        answer = {"translated": texts}
    return answer | ({"warnings": warnings} if warnings else {})
