"""`POST /classify`: labels for an image, with scores."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from contract.tasks import CLASSIFICATION, PATHS
from gateway.routes.reception import Reception
from gateway.schemas import ClassificationParameters


def make_blueprint(reception: Reception) -> Blueprint:
    """The classification route."""
    blueprint = Blueprint(CLASSIFICATION, __name__)

    @blueprint.post(PATHS[CLASSIFICATION])
    def classify() -> dict[str, Any]:
        (answer,) = reception.answer(
            CLASSIFICATION, ClassificationParameters, is_single=True
        )
        return answer.content

    return blueprint
