"""`POST /detect-objects`: the objects in an image and where they are."""

from __future__ import annotations

from typing import cast

from flask import Blueprint
from typing_extensions import TypedDict

from contract.tasks import DETECTION, PATHS
from gateway.api import Services
from gateway.http.bodies import UploadBlueprint
from gateway.openapi.operations import Operation, describe
from gateway.openapi.refusals import LOOKING
from gateway.schemas import DetectionParameters


class Box(TypedDict):
    """In pixels of the image."""

    left: float
    top: float
    right: float
    bottom: float


class Found(TypedDict):
    """An object in the image."""

    label: str
    score: float
    box: Box


class Objects(TypedDict):
    """The best first, and the size of the image."""

    objects: list[Found]
    width: int
    height: int


def make_blueprints(services: Services) -> list[Blueprint]:
    """The detection route."""
    blueprint = UploadBlueprint(DETECTION, __name__)

    @blueprint.post(PATHS[DETECTION])
    @describe(
        Operation(
            "The objects in an image: boxes, labels and scores",
            query=DetectionParameters,
            images="one",
            refusals=LOOKING,
            task=DETECTION,
            has_limit=True,
        )
    )
    def detect_objects() -> Objects:
        (answer,) = services.images.answer(
            DETECTION, DetectionParameters, is_single=True
        )
        return cast(Objects, answer.content)

    return [blueprint]
