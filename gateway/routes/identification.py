"""`POST /identify`: the likely languages of a text, or of each text in a list."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request

from gateway.schemas import parse_identification
from gateway.settings import Settings
from gateway.text.langid import Identifier
from gateway.transport.caller import read_caller
from gateway.transport.connection import take_turns

#: Candidates in an answer.
_MOST = 5


def make_blueprint(settings: Settings, identifier: Identifier) -> Blueprint:
    """The identification route."""
    blueprint = Blueprint("identification", __name__)

    @blueprint.post("/identify")
    def identify() -> dict[str, Any]:
        caller = read_caller(request.environ, settings.timeout_s)
        wanted = parse_identification(request.get_data(), settings.max_texts)
        ranked = [
            [
                {"language": guess.language, "confidence": guess.confidence}
                for guess in identifier.rank(text)[:_MOST]
            ]
            for text in take_turns(wanted.texts, caller.patience)
        ]
        return {"languages": ranked if wanted.is_list else ranked[0]}

    return blueprint
