"""`POST /caption`: a sentence about each image or frame of an upload."""

from __future__ import annotations

from flask import Blueprint
from typing_extensions import TypedDict

from contract.tasks import CAPTIONING, PATHS
from gateway.api import Services
from gateway.http.bodies import UploadBlueprint
from gateway.openapi.operations import Operation, describe
from gateway.openapi.refusals import LOOKING


class Captions(TypedDict):
    """One for each image and frame, in order."""

    captions: list[str]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The captioning route."""
    blueprint = UploadBlueprint(CAPTIONING, __name__)

    @blueprint.post(PATHS[CAPTIONING])
    @describe(
        Operation(
            "A sentence about each image or frame",
            images="several",
            refusals=LOOKING,
            task=CAPTIONING,
            has_limit=True,
        )
    )
    def caption() -> Captions:
        captions: list[str] = []
        for answer in services.images.answer(CAPTIONING):
            found = answer.content["captions"]
            if len(found) != answer.frames:
                raise ValueError(f"{len(found)} captions of {answer.frames} frames")
            captions += found
        return {"captions": captions}

    return [blueprint]
