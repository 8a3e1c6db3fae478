"""`POST /classify`: labels for an image, with scores."""

from __future__ import annotations

from typing import cast

from flask import Blueprint
from typing_extensions import TypedDict

from contract.tasks import CLASSIFICATION, PATHS
from gateway.api import Services
from gateway.http.bodies import UploadBlueprint
from gateway.openapi.operations import Operation, describe
from gateway.openapi.refusals import LOOKING
from gateway.schemas import ClassificationParameters


class Label(TypedDict):
    """A label of an image, and how sure it is."""

    label: str
    score: float


class Labels(TypedDict):
    """The best first."""

    labels: list[Label]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The classification route."""
    blueprint = UploadBlueprint(CLASSIFICATION, __name__)

    @blueprint.post(PATHS[CLASSIFICATION])
    @describe(
        Operation(
            "Labels of an image, with scores",
            query=ClassificationParameters,
            images="one",
            refusals=LOOKING,
            task=CLASSIFICATION,
            has_limit=True,
        )
    )
    def classify() -> Labels:
        (answer,) = services.images.answer(
            CLASSIFICATION, ClassificationParameters, is_single=True
        )
        return cast(Labels, answer.content)

    return [blueprint]
