"""`POST /identify`: the likely languages of a text, or of each text in a list."""

from __future__ import annotations

from flask import Blueprint
from typing_extensions import TypedDict

from gateway.api import Services
from gateway.errors import InvalidRequest
from gateway.http.request import read_json, request
from gateway.openapi.operations import BodySchema, Operation, describe
from gateway.schemas import limit_identification, parse_identification

#: Candidates in an answer.
_MOST = 5


class Candidate(TypedDict):
    """A language that a text may be in."""

    language: str
    confidence: float


class Identified(TypedDict):
    """The likely languages, best first; of each text, if they came as a list."""

    languages: list[Candidate] | list[list[Candidate]]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The identification route."""
    service = services.translation
    blueprint = Blueprint("identification", __name__)
    most_texts = service.bounds.max_texts
    body = BodySchema(
        limit_identification(most_texts),
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
        wanted = parse_identification(read_json(request), most_texts)
        ranked: list[list[Candidate]] = [
            [
                {"language": guess.language, "confidence": guess.confidence}
                for guess in guesses[:_MOST]
            ]
            for guesses in service.identify(wanted.texts, request.open_call())
        ]
        return {"languages": ranked if wanted.is_list else ranked[0]}

    return [blueprint]
