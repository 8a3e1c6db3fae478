"""`POST /identify`: the likely languages of a text, or of each text in a list."""

from __future__ import annotations

from flask import Blueprint, request
from typing_extensions import TypedDict

from gateway.errors import InvalidRequest
from gateway.openapi.operations import Body, Operation, describe
from gateway.schemas import limit_identification, parse_identification
from gateway.settings import Settings
from gateway.text.langid import Identifier
from gateway.transport.caller import read_caller
from gateway.transport.connection import take_turns

#: Candidates in an answer.
_MOST = 5


class Candidate(TypedDict):
    """A language that a text may be in."""

    language: str
    confidence: float


class Identified(TypedDict):
    """The likely languages, best first; of each text, if they came as a list."""

    languages: list[Candidate] | list[list[Candidate]]


def make_blueprint(settings: Settings, identifier: Identifier) -> Blueprint:
    """The identification route."""
    blueprint = Blueprint("identification", __name__)
    body = Body(
        limit_identification(settings.max_texts),
        examples={
            "a text": {"src_text": "Where is the station?"},
            "a list": {"src_text": ["Where is the station?", "Wo ist der Bahnhof?"]},
        },
    )

    @blueprint.post("/identify")
    @describe(
        Operation(
            "The likely languages of a text, or of each text in a list",
            bodies=(body,),
            refusals=(InvalidRequest,),
            has_limit=True,
        )
    )
    def identify() -> Identified:
        caller = read_caller(request.environ, settings.timeout_s)
        wanted = parse_identification(request.get_data(), settings.max_texts)
        ranked: list[list[Candidate]] = [
            [
                {"language": guess.language, "confidence": guess.confidence}
                for guess in identifier.rank(text)[:_MOST]
            ]
            for text in take_turns(wanted.texts, caller.patience)
        ]
        return {"languages": ranked if wanted.is_list else ranked[0]}

    return blueprint
