"""`POST /detect-objects`: the objects in an image and where they are."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from contract.tasks import DETECTION, PATHS
from gateway.routes.reception import Reception
from gateway.schemas import DetectionParameters


def make_blueprint(reception: Reception) -> Blueprint:
    """The detection route."""
    blueprint = Blueprint(DETECTION, __name__)

    @blueprint.post(PATHS[DETECTION])
    def detect_objects() -> dict[str, Any]:
        (answer,) = reception.answer(DETECTION, DetectionParameters, is_single=True)
        return answer.content

    return blueprint
