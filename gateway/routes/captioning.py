"""`POST /caption`: a sentence about each image or frame of an upload."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from contract.tasks import CAPTIONING, PATHS
from gateway.routes.reception import Reception
from gateway.transport.bodies import UploadBlueprint


def make_blueprint(reception: Reception) -> Blueprint:
    """The captioning route."""
    blueprint = UploadBlueprint(CAPTIONING, __name__)

    @blueprint.post(PATHS[CAPTIONING])
    def caption() -> dict[str, Any]:
        captions: list[str] = []
        for answer in reception.answer(CAPTIONING):
            found = answer.content["captions"]
            if len(found) != answer.frames:
                raise ValueError(f"{len(found)} captions of {answer.frames} frames")
            captions += found
        return {"captions": captions}

    return blueprint
